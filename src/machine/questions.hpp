// Declares what kernels ask about the machine that they run on. dispatch/dispatch.cpp has the answers.
//
// A level's object needs no other functions of the library. These have C names, because each level is compiled in its
// own namespaces, which do not change C names.
//
// All ways compute the same bits, so any answer gives correct results on any CPU. AMD's family 25 (Zen 3, Zen 4)
// answers the first three with yes, and its family 26 (Zen 5) only the fourth:
//
//   question                 | what                                 | no                         | yes
//   reads_rows_one_by_one    | rows of dot_rows that exceed L1      | four at a time             | one after the other
//                            | rows of dot_rows in large arrays     | four far apart at a time   | one after the other
//   fetches_far_ahead        | keys and values of large caches      | prefetched to L1           | far ahead, to L2 first
//   prefers_its_prefetcher   | f32 of one row, AVX2                 | in order, prefetched to L2 | a page of four groups in turn
//                            | BF16 and I8 of one row, AVX-512      | in order, prefetched to L2 | 8 KiB of two blocks in turn
//                            | 2 to 4 rows of floats, 2 of bytes    | each line prefetched to L2 | one line of four
//                            | f32 of many rows, AVX-512            | the next inputs to L1      | left to the CPU
//   reads_in_order           | 1 to 8 rows of a layer, float types  | a group of 512 inputs by   | 8 KiB by each pass,
//                            |                                      | each pass, the next to L2  | the next to L1
//                            | f32 of many rows, AVX-512            | the next inputs to L1      | left to the CPU
//                            | f32 of one or two queries a head,    | 32 keys at a time, two     | 16 at a time, the
//                            | keys and values over 48 MB, AVX-512  | runs of 16 ahead and pages | next 16 to L1
//
// Sapphire Rapids reads memory at 13 GB/s in one stream, and at 19 GB/s in four streams on different pages.
// Zen 4 reads 30 GB/s in one stream, and 11 GB/s in four.
//
// With one row of f32 on AVX2, a Zen 3 takes .69 (L2), .73 (L3) and .72 (memory) of the time in order. With codes
// of i8 on AVX-512 VNNI, a Zen 4 takes 1 (L2), .85 (L3) and .8 (memory), and with bf16 .9, .85 and .8. There, one
// stream reads memory at 26 GB/s, at 22 with prefetches to L2 in the program, and two in turn read at 29. With one
// line of four, layers of f32 with 2, 3 and 4 rows take .72, .9 and .85 of the time.
//
// Zen 5 reads memory at 46 GB/s in one stream, and at 40 with prefetches to L2 every four inputs. In order,
// with prefetches to L1, layers of 4096x4096 take these parts of the time:
//
//   rows          | 1, memory | 1, L3 | 1, L2 | 2   | 4   | 6   | 8
//   f32, AVX2     | .94       | .67   | .79   | .77 | .75 | .79 | .95
//   f64, AVX2     | .86       | .72   | .76   | .71 | .68 | .55 | .76
//   f16, AVX2     | .91       | .69   | 1     | .81 | .82 | .84 | .86
//   f32, AVX-512  |           |       |       | .96 | .90 | .90 | .80
//   f64, AVX-512  |           |       |       | .86 | .77 | .69 | .75
//   f16, AVX-512  |           |       |       | .89 | .87 | .86 | .83
//
// On AVX-512, one row multiplies two blocks, which are two streams without prefetches. One or two queries over 32768
// keys of 128 dimensions take .88 of the time, and as long with four queries or on AVX2.
#pragma once

namespace rapt {
struct KernelTable;
}

extern "C" {

bool rapt_reads_rows_one_by_one();
bool rapt_fetches_far_ahead();
bool rapt_prefers_its_prefetcher();
bool rapt_reads_in_order();

// Returns whether this process may use AMX's tiles. The first call asks Linux, and later calls get the same answer.
bool rapt_may_use_tiles();

// Returns the kernels of the level that amx builds on, which compute the same bits.
const rapt::KernelTable *rapt_kernels_without_tiles();
}
