// What the kernel offers to BPF programs, as far as the probe uses it: types, helpers by their numbers (which are the
// kernel's stable interface, see linux/bpf.h), maps in libbpf's notation, registers at the entry and return of functions.
// Nothing but clang is needed to compile against it, for any architecture on any other.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define SUBPROGRAM static __attribute__((noinline)) // of which there is one for all that call it

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_current_comm)(void *buffer, u32 size) = (void *)16;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*bpf_probe_read_user_str)(void *to, u32 size, const void *from) = (void *)114;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static u64 (*bpf_ringbuf_query)(void *ring, u64 what) = (void *)134;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static u64 (*bpf_get_attach_cookie)(void *context) = (void *)174;

// Whether a program that is attached to both ends of functions is at the return; kernels have it since 6.13.
extern _Bool bpf_session_is_return(void) __attribute__((section(".ksyms"), weak));

// A map with room for `most` entries until the loader says otherwise.
#define HASH(name, key_type, value_type, most)                                                                         \
    struct {                                                                                                           \
        int (*type)[BPF_MAP_TYPE_HASH];                                                                                \
        int (*max_entries)[most];                                                                                      \
        key_type *key;                                                                                                 \
        value_type *value;                                                                                             \
    } name SEC(".maps")
#define ARRAY(name, value_type, size)                                                                                  \
    struct {                                                                                                           \
        int (*type)[BPF_MAP_TYPE_ARRAY];                                                                               \
        int (*max_entries)[size];                                                                                      \
        u32 *key;                                                                                                      \
        value_type *value;                                                                                             \
    } name SEC(".maps")
#define RING(name, bytes)                                                                                              \
    struct {                                                                                                           \
        int (*type)[BPF_MAP_TYPE_RINGBUF];                                                                             \
        int (*max_entries)[bytes];                                                                                     \
    } name SEC(".maps")

// The kernel's own structures, where the probe needs a field: the loader puts in where this kernel has it (CO-RE).
#define OF_THIS_KERNEL __attribute__((preserve_access_index))
#define OFFSET_OF(field) __builtin_preserve_field_info(field, 0)

typedef struct {
    int counter;
} OF_THIS_KERNEL atomic_t;
struct signal_struct {
    atomic_t live; // threads that have not begun to exit
} OF_THIS_KERNEL;
struct pid_namespace;
struct upid {
    int nr;
    struct pid_namespace *ns;
} OF_THIS_KERNEL;
struct pid {
    unsigned int level;
    struct upid numbers[1]; // one for each namespace, from the first one on
} OF_THIS_KERNEL;
struct task_struct {
    int pid;
    int tgid;
    struct task_struct *group_leader;
    struct pid *thread_pid;
    struct signal_struct *signal;
} OF_THIS_KERNEL;

// Arguments are those of the System V ABI for x86-64 and of the Procedure Call Standard for Arm; those behind the
// last register are in a `frame` that read_frame() has read.
#if defined(__TARGET_ARCH_x86)
struct registers {
    u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define ARGUMENT_0(r) ((r)->di)
#define ARGUMENT_1(r) ((r)->si)
#define ARGUMENT_2(r) ((r)->dx)
#define ARGUMENT_3(r) ((r)->cx)
#define ARGUMENT_4(r) ((r)->r8)
#define ARGUMENT_5(r) ((r)->r9)
#define ARGUMENT_6(r, frame) ((frame).words[0])
#define ARGUMENT_7(r, frame) ((frame).words[1])
#define ARGUMENT_8(r, frame) ((frame).words[2])
#define RETURNED(r) ((r)->ax)
#define INSTRUCTION(r) ((r)->ip)
#define RETURN_ADDRESS_BYTES 8 // that the call has pushed
#define LARGE_STRUCT_AT(r, argument) ((r)->sp + RETURN_ADDRESS_BYTES) // on the stack, in front of all others there
#elif defined(__TARGET_ARCH_arm64)
struct registers {
    u64 regs[31], sp, pc, pstate;
};
#define ARGUMENT_0(r) ((r)->regs[0])
#define ARGUMENT_1(r) ((r)->regs[1])
#define ARGUMENT_2(r) ((r)->regs[2])
#define ARGUMENT_3(r) ((r)->regs[3])
#define ARGUMENT_4(r) ((r)->regs[4])
#define ARGUMENT_5(r) ((r)->regs[5])
#define ARGUMENT_6(r, frame) ((r)->regs[6])
#define ARGUMENT_7(r, frame) ((r)->regs[7])
#define ARGUMENT_8(r, frame) ((frame).words[0])
#define RETURNED(r) ((r)->regs[0])
#define INSTRUCTION(r) ((r)->pc)
#define RETURN_ADDRESS_BYTES 0
#define LARGE_STRUCT_AT(r, argument) ARGUMENT_##argument(r) // a copy's address in place of the argument
#else
#error "compile with -D__TARGET_ARCH_x86 or -D__TARGET_ARCH_arm64"
#endif

struct frame {
    u64 returns_to;
    u64 words[3]; // arguments on the stack
};

// Reads the return address, and those of the first `arguments` that are on the stack: by one read, whose cost does not
// depend on the size.
ALWAYS_INLINE void read_frame(struct frame *frame, struct registers *r, int arguments)
{
#if defined(__TARGET_ARCH_x86)
    bpf_probe_read_user(frame, sizeof(u64) * (1 + arguments - 6), (void *)r->sp);
#else
    frame->returns_to = r->regs[30];
    if (arguments > 8)
        bpf_probe_read_user(frame->words, sizeof(u64) * (arguments - 8), (void *)r->sp);
#endif
}
