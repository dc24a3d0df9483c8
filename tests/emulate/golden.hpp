// Reads the records of golden/: operands of instructions, and the results of a CPU that has these
// instructions.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "model.hpp"

namespace rapt::emulate {

struct TileRecord {
  static constexpr Word untouched = 0xcccccccc;  // words of d that TILESTORED does not write
  std::uint8_t rows, pairs, columns, kind;       // kind: tdpbssd, tdpbsud, tdpbusd, tdpbuud
  Word c[16][16], a[16][16], b[16][16], d[16][16];
};

struct SumRecord {  // VPDPBUSD and VPDPWSSD
  Vector c, a, b, wrapped, saturated;
};

struct ConversionRecord {  // VCVTNEPS2BF16
  Vector from;
  std::uint16_t to[16];
};

template <class Record>
std::vector<Record> read_golden(const std::string &folder, const char *name) {
  const std::string path = folder + "/" + name + ".bin";
  std::FILE *const file = std::fopen(path.c_str(), "rb");
  std::vector<Record> records;
  for (Record record; file && std::fread(&record, sizeof record, 1, file) == 1;) records.push_back(record);
  if (records.empty() || std::fgetc(file) != EOF) {
    std::fprintf(stderr, "%s is missing or has no whole number of records\n", path.c_str());
    std::exit(2);
  }
  std::fclose(file);
  return records;
}

}  // namespace rapt::emulate
