/* This plugin for QEMU's user mode counts how often each block of instructions ran.
 *
 *   qemu-aarch64 -plugin count_plugin.so,counts=COUNTS PROGRAM
 *
 * It writes one line per block to COUNTS: address in hexadecimal, number of instructions, number of runs.
 * Debian ships no qemu-plugin.h, so this file declares what it needs of version 1 of the plugin API. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                                  void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum qemu_plugin_op, void *,
                                                     uint64_t);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);

EXPORT int qemu_plugin_version = 1;

/* Counts one translation of a block. A block that QEMU translates again has several entries. */
struct block {
  uint64_t address, instructions, runs;
  struct block *next;
};
static struct block *blocks;
static char *path;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
  (void)id;
  struct block *block = malloc(sizeof *block);
  if (!block) abort();
  *block = (struct block){qemu_plugin_tb_vaddr(tb), qemu_plugin_tb_n_insns(tb), 0, blocks};
  blocks = block;
  qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &block->runs, 1);
}

static void ended(qemu_plugin_id_t id, void *data) {
  (void)id, (void)data;
  FILE *file = fopen(path, "w");
  if (!file) abort();
  for (const struct block *b = blocks; b; b = b->next) {
    if (b->runs) fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", b->address, b->instructions, b->runs);
  }
  if (fclose(file)) abort();
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
  (void)info;
  if (argc != 1 || strncmp(argv[0], "counts=", 7)) return -1;
  path = strdup(argv[0] + 7);
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
