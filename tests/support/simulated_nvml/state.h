/* The state file: what the simulated machine looks like, read anew at each call.
 *
 * One entry a line, its fields separated by tabs: a kind, then KEY=VALUE fields, e.g.
 *
 *   clock   start=1700000000.5        Unix time at which scripts begin; now=3.25 freezes the script time
 *   option  driver=570.124.06 live=1  options of the whole driver
 *   gpu     index=0 uuid=GPU-1 total=1000 used=0:10,2.5:90
 *   process gpu=0 pid=12 memory=na types=CG
 *   mig     gpu=0 index=1 gi=1 ci=0
 *   account gpu=0 pid=12 max_memory=1000
 *   xid     gpu=0 code=79 at=2.5
 *   fail    functions=nvmlDeviceGet* code=15 gpu=0 mig=-1 from=1 until=2 after=3 times=1
 *   hang    functions=nvmlInit* seconds=60
 *
 * A value over time is a number, "na", steps ("0:10,2.5:90": from 2.5 s on it is 90) or a line between points
 * ("~0:0,10:100"). Times are seconds since the start of the script.
 * Trouble concerns all devices, or with gpu= a GPU and all its MIG devices; with mig= only that one, -1 being the GPU.
 */
#ifndef SIMULATED_NVML_STATE_H
#define SIMULATED_NVML_STATE_H

#include "abi.h"

#define MAX_FIELDS 80

typedef struct {
    const char *kind;
    const char *field[MAX_FIELDS]; /* "KEY=VALUE" */
    int count;
} Entry;

typedef struct {
    char *text;
    Entry *entries;
    int count;
    double start; /* Unix time at which the script begins */
    double now;   /* script time, seconds */
} State;

double unix_time(void);

/* Reads the file that the environment variable SIMULATED_NVML_STATE names. Returns 0 where there is none. */
int state_read(State *state);
void state_free(State *state);

/* The text of a field, or NULL. */
const char *entry_text(const Entry *entry, const char *key);
/* The number that a field has at a script time, or `fallback` where the entry has no such field. */
u64 entry_number(const Entry *entry, const char *key, double time, u64 fallback);
/* Whether the script time lies in the entry's from/until window. */
int entry_is_current(const Entry *entry, double now);

/* The value that a script such as "0:10,2.5:90" has at a script time. */
u64 script_value(const char *script, double time);

/* The text of an option of the whole driver, or `fallback`. */
const char *option_text(const State *state, const char *key, const char *fallback);
int option_is_on(const State *state, const char *key);

/* The `gpu` entry of an index, the `mig` entry of a GPU and an index; NULL where there is none. */
const Entry *find_gpu(const State *state, int gpu);
const Entry *find_mig(const State *state, int gpu, int mig);
int gpu_count(const State *state);

#endif
