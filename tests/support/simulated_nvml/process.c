/* Calls about the processes on a device: the running lists, their utilization, accounting. */
#define _GNU_SOURCE
#include "call.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PROCESSES = 1024 };

static int process_lives(int pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    text[count < 0 ? 0 : count] = '\0';
    const char *state = strrchr(text, ')'); /* proc(5): "pid (name) state ..." */
    return state && state[2] != 'Z' && state[2] != 'X';
}

/* gi= and ci= of a process; a GPU that is not in MIG mode has none. */
static u32 instance_of(const Entry *entry, const char *key)
{
    return (u32)entry_number(entry, key, 0, NOT_AVAILABLE_32);
}

static int is_listed(const Call *call, const Entry *entry, char type)
{
    if (strcmp(entry->kind, "process") != 0 || (int)entry_number(entry, "gpu", 0, 0) != call->gpu)
        return 0;
    const char *types = entry_text(entry, "types");
    if (type != '*' && strchr(types ? types : "C", type) == NULL)
        return 0;
    if (call->mig >= 0 && (instance_of(entry, "gi") != device_number_or(call, "gi", 0) ||
                           instance_of(entry, "ci") != device_number_or(call, "ci", 0)))
        return 0;
    if (!entry_is_current(entry, call->state.now))
        return 0;
    return !option_is_on(&call->state, "live") || process_lives((int)entry_number(entry, "pid", 0, 0));
}

/* The entries of the processes that a list of the type ('C'ompute, 'G'raphics, 'M'PS, '*' any) shows. */
static u32 listed_processes(const Call *call, char type, const Entry *found[MAX_PROCESSES])
{
    u32 count = 0;
    int repeats = option_is_on(&call->state, "duplicates") ? 2 : 1;
    for (int i = 0; i < call->state.count; i++)
        for (int r = 0; r < repeats && count < MAX_PROCESSES && is_listed(call, &call->state.entries[i], type); r++)
            found[count++] = &call->state.entries[i];
    return count;
}

/* Answers INSUFFICIENT_SIZE and the count where the buffer is too small. */
static Result give_list(const Call *call, char type, u32 *count, void *buffer, size_t item_size)
{
    const Entry *found[MAX_PROCESSES];
    u32 room = *count;
    *count = listed_processes(call, type, found);
    if (*count > room)
        return INSUFFICIENT_SIZE;
    for (u32 i = 0; i < *count; i++) {
        ProcessInfo info = {
            .pid = (u32)entry_number(found[i], "pid", 0, 0),
            .used = entry_number(found[i], "memory", call->state.now, NOT_AVAILABLE_64),
            .gpu_instance = instance_of(found[i], "gi"),
            .compute_instance = instance_of(found[i], "ci"),
        };
        memcpy((char *)buffer + i * item_size, &info, item_size); /* version 1 is a prefix of versions 2 and 3 */
    }
    return SUCCESS;
}
#define LIST_CALL(function, type, item)                       \
    API Result function(Device device, u32 *count, void *buffer) \
    {                                                         \
        BEGIN_DEVICE(device);                                 \
        END(give_list(&call, type, count, buffer, sizeof(item))); \
    }
LIST_CALL(nvmlDeviceGetComputeRunningProcesses, 'C', ProcessInfoV1)
LIST_CALL(nvmlDeviceGetGraphicsRunningProcesses, 'G', ProcessInfoV1)
LIST_CALL(nvmlDeviceGetMPSComputeRunningProcesses, 'M', ProcessInfoV1)
#if OLD_DRIVER < 2
LIST_CALL(nvmlDeviceGetComputeRunningProcesses_v2, 'C', ProcessInfo)
LIST_CALL(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G', ProcessInfo)
LIST_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'M', ProcessInfo)
#endif
#if OLD_DRIVER < 1
LIST_CALL(nvmlDeviceGetComputeRunningProcesses_v3, 'C', ProcessInfo)
LIST_CALL(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G', ProcessInfo)
LIST_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'M', ProcessInfo)
#endif

/* Utilization of the listed processes that used anything after `last_seen`. */
static u32 process_utilization(const Call *call, u64 last_seen_us, ProcessUtilizationInfo items[MAX_PROCESSES])
{
    const Entry *found[MAX_PROCESSES];
    u32 listed = listed_processes(call, '*', found), count = 0;
    double now = call->state.now;
    for (u32 i = 0; i < listed; i++) {
        ProcessUtilizationInfo item = {
            .time_us = entry_number(found[i], "time_us", 0, now_us(call)),
            .pid = (u32)entry_number(found[i], "pid", 0, 0),
            .sm = (u32)entry_number(found[i], "sm", now, 0),
            .memory = (u32)entry_number(found[i], "memory_util", now, 0),
            .encoder = (u32)entry_number(found[i], "encoder", now, 0),
            .decoder = (u32)entry_number(found[i], "decoder", now, 0),
        };
        if (item.time_us > last_seen_us && (item.sm || item.memory || item.encoder || item.decoder))
            items[count++] = item;
    }
    if (option_is_on(&call->state, "garbage") && count < MAX_PROCESSES)
        items[count++] = (ProcessUtilizationInfo){.time_us = 7, .pid = 4294900000u, .sm = 3000000000u, .memory = 77};
    return count;
}

API Result nvmlDeviceGetProcessUtilization(Device device, ProcessUtilization *items, u32 *count, u64 last_seen_us)
{
    BEGIN_DEVICE(device);
    if (call.mig >= 0 || mig_mode_is_on(&call))
        END(NOT_SUPPORTED);
    ProcessUtilizationInfo known[MAX_PROCESSES];
    u32 room = *count;
    *count = process_utilization(&call, last_seen_us, known);
    if (items == NULL) {
        if (*count == 0 && option_is_on(&call.state, "idle_success"))
            END(SUCCESS);
        *count = *count > 100 ? *count : 100; /* drivers answer the size of their buffer, not the number of samples */
        END(INSUFFICIENT_SIZE);
    }
    if (*count > room)
        END(INSUFFICIENT_SIZE);
    for (u32 i = 0; i < *count; i++)
        items[i] = (ProcessUtilization){known[i].pid,    known[i].time_us, known[i].sm,
                                        known[i].memory, known[i].encoder, known[i].decoder};
    END(*count ? SUCCESS : NOT_FOUND);
}
#if OLD_DRIVER < 1
API Result nvmlDeviceGetProcessesUtilizationInfo(Device device, ProcessUtilizationList *list)
{
    BEGIN_DEVICE(device);
    if (list->version != STRUCT_VERSION(ProcessUtilizationList, 1))
        END(ARGUMENT_VERSION_MISMATCH);
    if (call.mig >= 0 || mig_mode_is_on(&call))
        END(NOT_SUPPORTED);
    ProcessUtilizationInfo known[MAX_PROCESSES];
    u32 room = list->count;
    list->count = process_utilization(&call, list->last_seen_us, known);
    if (list->count == 0)
        END(NOT_FOUND);
    if (list->items == NULL || list->count > room)
        END(INSUFFICIENT_SIZE);
    memcpy(list->items, known, list->count * sizeof *known);
    END(SUCCESS);
}
#endif

/* Accounting mode: -1 unsupported, else what the state says, or what the program under test has set. */
static int accounting_set[256];
static int accounting_mode(const Call *call)
{
    u64 mode;
    if (call->mig >= 0 || !device_number(call, "accounting", &mode))
        return -1;
    int set = accounting_set[call->gpu & 255];
    return set ? set - 1 : (int)mode;
}
API Result nvmlDeviceGetAccountingMode(Device device, u32 *mode)
{
    BEGIN_DEVICE(device);
    int known = accounting_mode(&call);
    *mode = (u32)known;
    END(known < 0 ? NOT_SUPPORTED : SUCCESS);
}
API Result nvmlDeviceSetAccountingMode(Device device, u32 mode)
{
    BEGIN_DEVICE(device);
    if (accounting_mode(&call) < 0)
        END(NOT_SUPPORTED);
    if (geteuid() != 0)
        END(NO_PERMISSION);
    accounting_set[call.gpu & 255] = (int)mode + 1;
    END(SUCCESS);
}
API Result nvmlDeviceGetAccountingBufferSize(Device device, u32 *size)
{
    BEGIN_DEVICE(device);
    *size = 4000;
    END(accounting_mode(&call) < 0 ? NOT_SUPPORTED : SUCCESS);
}

static int is_account_of(const Entry *entry, int gpu)
{
    return strcmp(entry->kind, "account") == 0 && (int)entry_number(entry, "gpu", 0, 0) == gpu;
}
API Result nvmlDeviceGetAccountingPids(Device device, u32 *count, u32 *pids)
{
    BEGIN_DEVICE(device);
    if (accounting_mode(&call) != 1)
        END(NOT_SUPPORTED);
    u32 room = *count;
    *count = 0;
    for (int i = 0; i < call.state.count; i++) {
        if (!is_account_of(&call.state.entries[i], call.gpu))
            continue;
        if (*count < room)
            pids[*count] = (u32)entry_number(&call.state.entries[i], "pid", 0, 0);
        (*count)++;
    }
    END(*count > room ? INSUFFICIENT_SIZE : SUCCESS);
}
API Result nvmlDeviceGetAccountingStats(Device device, u32 pid, AccountingStats *stats)
{
    BEGIN_DEVICE(device);
    if (accounting_mode(&call) != 1)
        END(NOT_SUPPORTED);
    for (int i = 0; i < call.state.count; i++) {
        const Entry *entry = &call.state.entries[i];
        if (!is_account_of(entry, call.gpu) || (u32)entry_number(entry, "pid", 0, 0) != pid)
            continue;
        double now = call.state.now;
        *stats = (AccountingStats){
            .gpu_utilization = (u32)entry_number(entry, "util", now, 0),
            .memory_utilization = (u32)entry_number(entry, "memory_util", now, 0),
            .max_memory = entry_number(entry, "max_memory", now, 0),
            .time_ms = entry_number(entry, "time", now, 0),
            .start_us = entry_number(entry, "start_us", now, now_us(&call)),
            .is_running = (u32)entry_number(entry, "running", now, 1),
        };
        END(SUCCESS);
    }
    END(NOT_FOUND);
}
