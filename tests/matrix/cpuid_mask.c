/* Presents an older CPU to a program, at full speed: LD_PRELOAD this, with the model in RAPT_CPU_MODEL.
 *
 * Linux can make the cpuid instruction fault (arch_prctl ARCH_SET_CPUID, where the CPU has cpuid_fault). The fault's
 * handler executes the real cpuid and takes away the features that the model lacks. It adds none, so that the program
 * can use every feature it sees. Instructions beyond the model still run: this tests which level is chosen and its
 * results, and the audit tests its instructions.
 *
 * Exit status 77 if this machine cannot do it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { arch_set_cpuid = 0x1012, cannot = 77 };

/* cpuid leaf 7: AVX-512's parts */
enum {
  f = 1u << 16, dq = 1u << 17, ifma = 1u << 21, pf = 1u << 26, er = 1u << 27, cd = 1u << 28, bw = 1u << 30,
  vl = 1u << 31,
  all_ebx = f | dq | ifma | pf | er | cd | bw | vl, bmi2 = 1u << 8
};
enum {
  vbmi = 1u << 1, vbmi2 = 1u << 6, gfni = 1u << 8, vaes = 1u << 9, vpclmul = 1u << 10, vnni = 1u << 11,
  bitalg = 1u << 12, popcnt = 1u << 14,
  all_ecx = vbmi | vbmi2 | gfni | vaes | vpclmul | vnni | bitalg | popcnt
};
enum { vp2intersect = 1u << 8, amx_bf16 = 1u << 22, fp16 = 1u << 23, amx_tile = 1u << 24, amx_int8 = 1u << 25,
       all_edx = vp2intersect | amx_bf16 | fp16 | amx_tile | amx_int8 };
enum { avx_vnni = 1u << 4, bf16 = 1u << 5, amx_fp16 = 1u << 21, all_leaf71_eax = avx_vnni | bf16 | amx_fp16 };
enum { fma = 1u << 12, osxsave = 1u << 27 };

/* The bits of these groups that are left, and single bits that are taken away. */
static const struct model {
  const char *name;
  uint32_t ebx, ecx, edx, leaf71_eax;
  uint32_t without_leaf1_ecx, without_ebx;
} models[] = {
    {"haswell", 0, 0, 0, 0, 0, 0},
    {"haswell-without-fma", 0, 0, 0, 0, fma, 0},
    {"haswell-without-bmi2", 0, 0, 0, 0, 0, bmi2},
    {"system-without-xsave", all_ebx, all_ecx, all_edx, all_leaf71_eax, osxsave, 0},
    {"alder-lake", 0, gfni | vaes | vpclmul, 0, avx_vnni, 0, 0},
    {"knights-landing", f | cd | er | pf, 0, 0, 0, 0, 0},
    {"skylake-x", f | dq | cd | bw | vl, 0, 0, 0, 0, 0},
    {"cooper-lake", f | dq | cd | bw | vl, vnni, 0, bf16, 0, 0},
    {"ice-lake", f | dq | cd | bw | vl | ifma, all_ecx, 0, 0, 0, 0},
    {"sapphire-rapids", f | dq | cd | bw | vl | ifma, all_ecx, all_edx & ~vp2intersect, avx_vnni | bf16, 0, 0},
};

static const struct model *model;
static struct sigaction program_action; /* what the program itself wants done on SIGSEGV */

static long set_cpuid(long enabled) { return syscall(SYS_arch_prctl, arch_set_cpuid, enabled); }

static void mask(uint32_t leaf, uint32_t subleaf, uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d) {
  if (leaf == 1) *c &= ~model->without_leaf1_ecx;
  if (leaf == 7 && subleaf == 0) {
    *b &= (model->ebx | ~(uint32_t)all_ebx) & ~model->without_ebx;
    *c &= model->ecx | ~(uint32_t)all_ecx;
    *d &= model->edx | ~(uint32_t)all_edx;
  }
  if (leaf == 7 && subleaf == 1) *a &= model->leaf71_eax | ~(uint32_t)all_leaf71_eax;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *instruction = (const unsigned char *)registers[REG_RIP];
  /* Only a fault without an address can be cpuid's: any other instruction's address may not be readable. */
  if (info->si_addr == NULL && instruction[0] == 0x0f && instruction[1] == 0xa2) {
    uint32_t a = (uint32_t)registers[REG_RAX], b, c = (uint32_t)registers[REG_RCX], d;
    const uint32_t leaf = a, subleaf = c;
    set_cpuid(1);
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    set_cpuid(0);
    mask(leaf, subleaf, &a, &b, &c, &d);
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
    return;
  }
  if (program_action.sa_flags & SA_SIGINFO && program_action.sa_sigaction) {
    program_action.sa_sigaction(signal, info, context);
  } else if (program_action.sa_handler != SIG_DFL && program_action.sa_handler != SIG_IGN) {
    program_action.sa_handler(signal);
  } else {
    static const struct sigaction as_ever = {.sa_handler = SIG_DFL};
    syscall(SYS_rt_sigaction, SIGSEGV, &as_ever, NULL, sizeof(long));
  }
}

typedef int sigaction_function(int, const struct sigaction *, struct sigaction *);

static int real_sigaction(int signal, const struct sigaction *action, struct sigaction *before) {
  static sigaction_function *next;
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "sigaction");
  return next(signal, action, before);
}

/* The program may handle SIGSEGV too: it is called for every fault that is not cpuid's. */
int sigaction(int signal, const struct sigaction *action, struct sigaction *before) {
  if (signal != SIGSEGV || !model) return real_sigaction(signal, action, before);
  if (before) *before = program_action;
  if (action) program_action = *action;
  return 0;
}

__attribute__((constructor)) static void present(void) {
  const char *name = getenv("RAPT_CPU_MODEL");
  for (size_t i = 0; name && i < sizeof models / sizeof *models; ++i) {
    if (strcmp(models[i].name, name) == 0) model = &models[i];
  }
  if (!model) {
    fprintf(stderr, "cpuid_mask: RAPT_CPU_MODEL names none of the models:");
    for (size_t i = 0; i < sizeof models / sizeof *models; ++i) fprintf(stderr, " %s", models[i].name);
    fprintf(stderr, "\n");
    _exit(2);
  }
  const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
  real_sigaction(SIGSEGV, &action, NULL);
  if (set_cpuid(0) != 0) {
    fprintf(stderr, "cpuid_mask: this machine cannot make cpuid fault\n");
    _exit(cannot);
  }
}
