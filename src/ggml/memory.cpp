#include "ggml/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace rapt_ggml {

namespace {

constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

// A file with one number, or "max".
std::size_t number_in(const std::string &path) {
  std::ifstream file(path);
  std::size_t number = unlimited;
  return file >> number ? number : unlimited;
}

// The limit of a group, and how much the group uses without the files in its page cache.
struct Group {
  std::size_t limit = unlimited, used = 0;
};

Group read_group(const std::string &folder, const char *limit, const char *usage, const char *files_key) {
  Group group;
  group.limit = number_in(folder + limit);
  group.used = number_in(folder + usage);
  if (group.used == unlimited) group.used = 0;
  std::ifstream stat(folder + "memory.stat");
  std::string key;
  for (std::size_t value; stat >> key >> value;) {
    if (key == files_key) group.used -= std::min(group.used, value);
  }
  return group;
}

}  // namespace

Pages::Pages(std::size_t bytes) : size_(bytes) {
  mapped_bytes_ = (bytes + huge_page - 1) / huge_page * huge_page + huge_page;
  if (mapped_bytes_ < bytes) return;
  mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    return;
  }
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(mapped_);
  data_ = static_cast<std::byte *>(mapped_) + (huge_page - begin % huge_page) % huge_page;
  if (bytes >= huge_page) madvise(data_, bytes, MADV_HUGEPAGE);
}

Pages::~Pages() {
  if (mapped_) munmap(mapped_, mapped_bytes_);
}

Memory system_memory() {
  Memory memory;
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    std::istringstream words(line);
    std::string key;
    std::size_t kilobytes = 0;
    words >> key >> kilobytes;
    if (key == "MemTotal:") memory.total = kilobytes * 1024;
    if (key == "MemAvailable:") memory.available = kilobytes * 1024;
  }
  // Lines are "0::/path" in version 2, and "5:memory:/path" in version 1. Every group above may have a limit too.
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("memory") == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    for (;;) {
      const std::string folder = (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") + path + "/";
      const Group group =
          unified ? read_group(folder, "memory.max", "memory.current", "file")
                  : read_group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache");
      if (group.limit < memory.total) {
        memory.total = group.limit;
        memory.available = std::min(memory.available, group.limit - std::min(group.limit, group.used));
      }
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/'));
    }
  }
  return memory;
}

void drop_file_pages(const void *data, std::size_t bytes) {
  constexpr std::uintptr_t page = 4096;
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; first < last && std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, offset = 0, inode = 0;
    char rights[5] = {}, device[12] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %11s %lu", &begin, &end, rights, &offset, device,
                    &inode) != 6)
      continue;
    if (end <= first) continue;
    if (begin <= first && last <= end && inode != 0 && rights[1] == '-') {
      madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
    }
    return;
  }
}

}  // namespace rapt_ggml
