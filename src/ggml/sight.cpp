#include "ggml/sight.hpp"

#include <algorithm>
#include <cstring>

namespace rapt_ggml {

namespace {

constexpr std::size_t chunk = 512;  // rapt.h: every 512 keys begin a new partial result

struct Seen {
  std::uint32_t slot;
  std::int32_t cell;

  friend bool operator==(const Seen &, const Seen &) = default;
};

// Gives fresh rows their numbers, in the order of writing. Row i belongs to query i of the batch.
void number_fresh(CacheNumbers &cache, const Cells &cells, const Mask &mask, std::size_t queries,
                  std::size_t keys) {
  for (std::size_t i = 0; i < cache.fresh().size(); ++i) {
    const std::size_t b = i / queries, own = cache.fresh()[i],
                      first = cells.first_row + b * cells.sequence_step;
    RowNumber &row = *cache.row(own);
    const RowNumber *const seen = cache.row(first);
    const std::uint8_t *const visible = mask.plane(b, 0) + i % queries * keys;
    // none + 1 is 0, so that a cell without a number counts for nothing.
    std::uint32_t number = 0;
    for (std::size_t c = 0; c < keys; ++c) {
      const std::uint32_t after = visible[c] != 0 && seen[c].written < row.written ? seen[c].number + 1 : 0;
      number = std::max(number, after);
    }
    row.number = number;
  }
  cache.forget_fresh();
}

// The cells that a query sees, by number, equal numbers in the order of writing.
void list_seen(const std::uint8_t *visible, const RowNumber *cells, std::size_t keys,
               std::vector<Seen> &seen) {
  seen.clear();
  bool sorted = true;
  for (std::size_t c = 0; c < keys; ++c) {
    if (!visible[c]) continue;
    sorted = sorted && (seen.empty() || seen.back().slot < cells[c].number);
    seen.push_back({cells[c].number, static_cast<std::int32_t>(c)});
  }
  if (sorted) return;
  std::sort(seen.begin(), seen.end(), [&](const Seen &a, const Seen &b) {
    if (a.slot != b.slot) return a.slot < b.slot;
    return cells[a.cell].written < cells[b.cell].written;
  });
  for (std::size_t i = 1; i < seen.size(); ++i) seen[i].slot = std::max(seen[i].slot, seen[i - 1].slot + 1);
}

// Queries whose cells agree on their slots.
struct Party {
  std::vector<std::uint32_t> queries;
  std::vector<Seen> seen;  // of all queries together, by slot
};

// Adds a query to a party if they share a cell, and no cell or slot has two places.
bool join(Party &party, const std::vector<Seen> &seen, std::size_t keys) {
  const std::vector<Seen> &old = party.seen;
  const std::size_t common = std::min(old.size(), seen.size());
  if (common > 0 &&
      std::equal(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(common), old.begin())) {
    if (seen.size() > old.size()) party.seen = seen;
    return true;
  }
  std::vector<Seen> merged;
  merged.reserve(old.size() + seen.size());
  std::size_t shared = 0;
  auto a = old.begin(), b = seen.begin();
  while (a != old.end() || b != seen.end()) {
    if (b == seen.end() || (a != old.end() && a->slot < b->slot)) {
      merged.push_back(*a++);
    } else if (a == old.end() || b->slot < a->slot) {
      merged.push_back(*b++);
    } else {
      if (a->cell != b->cell) return false;
      merged.push_back(*a++), ++b, ++shared;
    }
  }
  if (shared == 0) return false;
  std::vector<bool> taken(keys);
  for (const Seen &s : merged) {
    if (taken[static_cast<std::size_t>(s.cell)]) return false;
    taken[static_cast<std::size_t>(s.cell)] = true;
  }
  party.seen = std::move(merged);
  return true;
}

// Finds the simple form of what the queries of a group see, and drops slots at the end that nobody sees.
void describe(Group &group) {
  const std::size_t rows = group.queries.size(), slots = group.slots;
  std::vector<std::ptrdiff_t> first(rows), last(rows);
  std::size_t most = 0, end = 0;
  bool runs = true;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::uint8_t *const visible = &group.visible[r * slots];
    const std::uint8_t *const begin = static_cast<const std::uint8_t *>(std::memchr(visible, 1, slots));
    if (!begin) {
      runs = false;
      continue;
    }
    std::size_t count = 0, after = slots;
    while (!visible[after - 1]) --after;
    for (std::size_t i = 0; i < after; ++i) count += visible[i];
    first[r] = begin - visible, last[r] = static_cast<std::ptrdiff_t>(after) - 1;
    runs = runs && static_cast<std::ptrdiff_t>(count) == last[r] - first[r] + 1 &&
           last[r] == last[0] + static_cast<std::ptrdiff_t>(r);
    most = std::max(most, count), end = std::max(end, after);
  }
  const auto fits = [&](std::ptrdiff_t window) {
    for (std::size_t r = 0; r < rows; ++r) {
      if (first[r] != (window ? std::max<std::ptrdiff_t>(0, last[r] - window + 1) : 0)) return false;
    }
    return true;
  };
  const std::ptrdiff_t window = static_cast<std::ptrdiff_t>(most);
  if (runs && (fits(0) || fits(window))) {
    group.causal = true;
    group.causal_offset = last[0];
    group.window = fits(0) ? 0 : most;
    group.visible.clear();
  } else if (end < slots) {
    for (std::size_t r = 1; r < rows; ++r)
      std::memmove(&group.visible[r * end], &group.visible[r * slots], end);
    group.visible.resize(rows * end);
  }
  group.slots = std::max<std::size_t>(end, 1);
  if (!group.cells.empty()) group.cells.resize(group.slots);
  if (end == 0) group.visible.assign(rows, 0);
}

Group group_in_place(std::vector<std::uint32_t> queries, const std::uint8_t *visible, std::size_t keys) {
  Group group;
  group.queries = std::move(queries);
  group.slots = keys;
  group.visible.resize(group.queries.size() * keys);
  for (std::size_t r = 0; r < group.queries.size(); ++r) {
    std::memcpy(&group.visible[r * keys], visible + group.queries[r] * keys, keys);
  }
  describe(group);
  return group;
}

// Slots without their empty chunks: a chunk that nobody sees changes no result.
Group group_of(const Party &party, const std::uint8_t *visible, std::size_t keys) {
  Group group;
  group.queries = party.queries;
  std::vector<std::int32_t> slot_of(keys, Group::no_cell);
  std::size_t chunks = 0;
  for (std::size_t i = 0; i < party.seen.size(); ++i) {
    const Seen &seen = party.seen[i];
    if (i == 0 || seen.slot / chunk != party.seen[i - 1].slot / chunk) ++chunks;
    const std::size_t slot = (chunks - 1) * chunk + seen.slot % chunk;
    group.cells.resize(slot + 1, Group::no_cell);
    group.cells[slot] = seen.cell;
    slot_of[static_cast<std::size_t>(seen.cell)] = static_cast<std::int32_t>(slot);
  }
  group.slots = group.cells.size();
  group.visible.assign(group.queries.size() * group.slots, 0);
  for (std::size_t r = 0; r < group.queries.size(); ++r) {
    for (std::size_t c = 0; c < keys; ++c) {
      if (visible[group.queries[r] * keys + c])
        group.visible[r * group.slots + static_cast<std::size_t>(slot_of[c])] = 1;
    }
  }
  describe(group);
  return group;
}

// Whether a query's cells are its slots, but for whole chunks.
bool is_in_place(const std::uint8_t *visible, const RowNumber *cells, std::size_t keys) {
  bool found = false;
  std::uint32_t shift = 0;
  for (std::size_t c = 0; c < keys; ++c) {
    if (!visible[c]) continue;
    const std::uint32_t of_cell = cells[c].number - static_cast<std::uint32_t>(c);
    if (of_cell % chunk != 0 || (found && of_cell != shift)) return false;
    found = true, shift = of_cell;
  }
  return true;
}

std::vector<Group> groups_of(const std::uint8_t *visible, const RowNumber *cells, std::size_t queries,
                             std::size_t keys) {
  std::vector<Group> groups;
  std::vector<std::uint32_t> in_place;
  std::vector<Party> parties;
  std::vector<Seen> seen;
  for (std::size_t q = 0; q < queries; ++q) {
    const std::uint32_t query = static_cast<std::uint32_t>(q);
    if (!cells || is_in_place(visible + q * keys, cells, keys)) {
      in_place.push_back(query);
      continue;
    }
    list_seen(visible + q * keys, cells, keys, seen);
    const auto fitting =
        std::find_if(parties.begin(), parties.end(), [&](Party &party) { return join(party, seen, keys); });
    if (fitting != parties.end()) {
      fitting->queries.push_back(query);
    } else {
      parties.push_back({{query}, seen});
    }
  }
  if (!in_place.empty()) groups.push_back(group_in_place(std::move(in_place), visible, keys));
  for (const Party &party : parties) groups.push_back(group_of(party, visible, keys));
  return groups;
}

bool has_all_numbers(const Mask &mask, std::size_t b, const RowNumber *cells, std::size_t keys) {
  for (std::size_t c = 0; c < keys; ++c) {
    if (cells[c].number != RowNumber::none) continue;
    for (std::size_t q = 0; q < mask.queries; ++q) {
      if (mask.plane(b, 0)[q * keys + c]) return false;
    }
  }
  return true;
}

// Whether a sight was made for cells that look the same.
bool has_cells(const Sight &sight, const Cells &cells, std::size_t keys, std::size_t batch) {
  if (sight.before.size() != (cells.cache ? batch * keys : 0)) return false;
  if (sight.first_row != cells.first_row || sight.sequence_step != cells.sequence_step) return false;
  for (std::size_t b = 0; b < batch && cells.cache; ++b) {
    const RowNumber *const first = cells.cache->row(cells.first_row + b * cells.sequence_step);
    if (!std::equal(first, first + keys, sight.before.begin() + static_cast<std::ptrdiff_t>(b * keys)))
      return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<const Sight> sight_of(Graph &graph, Tensor op, const Cells &cells) {
  const Tensor q = op->src[0], k = op->src[1], mask_tensor = op->src[3];
  const std::size_t queries = extent(q, 1), keys = extent(k, 1), batch = extent(q, 3);
  const std::vector<std::uint32_t> fresh = cells.cache ? cells.cache->fresh() : std::vector<std::uint32_t>();
  for (const std::shared_ptr<const Sight> &known : graph.sights) {
    if (known->mask != mask_tensor || known->fresh != fresh || !has_cells(*known, cells, keys, batch))
      continue;
    for (std::size_t i = 0; i < fresh.size(); ++i) cells.cache->row(fresh[i])->number = known->numbers[i];
    if (cells.cache) cells.cache->forget_fresh();
    return known;
  }

  auto made = std::make_shared<Sight>();
  made->mask = mask_tensor;
  made->fresh = fresh;
  made->first_row = cells.first_row, made->sequence_step = cells.sequence_step;
  for (std::size_t b = 0; b < batch && cells.cache; ++b) {
    const RowNumber *const first = cells.cache->row(cells.first_row + b * cells.sequence_step);
    made->before.insert(made->before.end(), first, first + keys);
  }
  const std::shared_ptr<const Mask> mask = mask_of(graph, mask_tensor);
  // Without a cache, keys are those of the batch: each query brings one, and sees only keys of its sequence.
  CacheNumbers own(cells.cache || queries != keys ? 0 : batch * keys, 1);
  Cells counted = cells;
  if (!cells.cache && queries == keys) {
    counted = {&own, 0, keys};
    for (std::size_t i = 0; i < batch * keys; ++i) own.write(i);
  }
  if (counted.cache) {
    if (counted.cache->fresh().size() == queries * batch) {
      number_fresh(*counted.cache, counted, *mask, queries, keys);
    } else if (!counted.cache->fresh().empty()) {
      not_our_bits(
          "keys were not written by the queries of their batch: they are taken in the order of cells");
      counted.cache->forget_fresh();
    }
    for (const std::uint32_t row : fresh) made->numbers.push_back(cells.cache->row(row)->number);
  }
  for (std::size_t b = 0; b < batch; ++b) {
    const RowNumber *numbers =
        counted.cache ? counted.cache->row(counted.first_row + b * counted.sequence_step) : nullptr;
    if (numbers && !has_all_numbers(*mask, b, numbers, keys)) {
      not_our_bits("keys of the cache have no numbers: they are taken in the order of cells");
      numbers = nullptr;
    }
    made->sequences.push_back(groups_of(mask->plane(b, 0), numbers, queries, keys));
  }
  graph.sights.push_back(made);
  return made;
}

}  // namespace rapt_ggml
