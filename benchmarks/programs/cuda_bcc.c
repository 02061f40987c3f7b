// What cuda_bcc.py loads: an event for each call that went well, at its return, through a ring as large as ours.
#include <uapi/linux/ptrace.h>

struct call {
    u64 time, argument, size, stream;
};
struct event {
    u64 time, address, value, stream;
    u32 pid, tid, function, padding;
};

BPF_HASH(calls, u32, struct call, 16384);
BPF_RINGBUF_OUTPUT(events, 4096);
BPF_ARRAY(lost, u64, 1);

static int begin(u64 argument, u64 size, u64 stream)
{
    u32 tid = bpf_get_current_pid_tgid();
    struct call call = {.time = bpf_ktime_get_ns(), .argument = argument, .size = size, .stream = stream};
    calls.update(&tid, &call);
    return 0;
}

static int end(struct pt_regs *registers, u32 function)
{
    u64 id = bpf_get_current_pid_tgid();
    u32 tid = id;
    int zero = 0;
    struct event event = {.pid = id >> 32, .tid = tid, .function = function};
    struct call *call = calls.lookup(&tid);
    u64 *counted;

    if (!call)
        return 0;
    event.time = call->time;
    event.address = call->argument;
    event.value = call->size;
    event.stream = call->stream;
    if (function == 1)
        bpf_probe_read_user(&event.address, sizeof(event.address), (void *)call->argument);
    calls.delete(&tid);
    if ((int)PT_REGS_RC(registers))
        return 0;
    if (events.ringbuf_output(&event, sizeof(event), 0)) {
        counted = lost.lookup(&zero);
        if (counted)
            __sync_fetch_and_add(counted, 1);
    }
    return 0;
}

int launch_begins(struct pt_regs *registers)
{
    u64 grid = PT_REGS_PARM2(registers), block = PT_REGS_PARM4(registers), stream = 0;
    u64 blocks = (u64)(u32)grid * (u32)(grid >> 32) * (u32)PT_REGS_PARM3(registers);
    u64 threads = (u64)(u32)block * (u32)(block >> 32) * (u32)PT_REGS_PARM5(registers);
    bpf_probe_read_user(&stream, sizeof(stream), (void *)PT_REGS_SP(registers) + 16);
    return begin(PT_REGS_PARM1(registers), blocks * threads, stream);
}
int malloc_begins(struct pt_regs *registers) { return begin(PT_REGS_PARM1(registers), PT_REGS_PARM2(registers), 0); }
int free_begins(struct pt_regs *registers) { return begin(PT_REGS_PARM1(registers), 0, 0); }
int synchronise_begins(struct pt_regs *registers) { return begin(0, 0, PT_REGS_PARM1(registers)); }

int launch_ends(struct pt_regs *registers) { return end(registers, 0); }
int malloc_ends(struct pt_regs *registers) { return end(registers, 1); }
int free_ends(struct pt_regs *registers) { return end(registers, 2); }
int synchronise_ends(struct pt_regs *registers) { return end(registers, 3); }
