#include "state.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

double unix_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static char *read_whole_file(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    struct stat status;
    char *text = NULL;
    if (fstat(file, &status) == 0 && (text = malloc((size_t)status.st_size + 1)) != NULL) {
        ssize_t length = pread(file, text, (size_t)status.st_size, 0);
        text[length < 0 ? 0 : length] = '\0';
    }
    close(file);
    return text;
}

static void parse_line(char *line, Entry *entry)
{
    char *rest = NULL;
    entry->kind = strtok_r(line, "\t", &rest);
    entry->count = 0;
    for (char *field; entry->count < MAX_FIELDS && (field = strtok_r(NULL, "\t", &rest)) != NULL;)
        entry->field[entry->count++] = field;
}

static int count_lines(const char *text)
{
    int lines = 1;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

int state_read(State *state)
{
    memset(state, 0, sizeof *state);
    const char *path = getenv("SIMULATED_NVML_STATE");
    if (path == NULL || (state->text = read_whole_file(path)) == NULL)
        return 0;
    state->entries = calloc((size_t)count_lines(state->text), sizeof *state->entries);
    char *rest = NULL;
    for (char *line = strtok_r(state->text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        Entry *entry = &state->entries[state->count];
        parse_line(line, entry);
        if (entry->kind == NULL)
            continue;
        state->count++;
        const char *start = NULL, *now = NULL;
        if (strcmp(entry->kind, "clock") == 0) {
            start = entry_text(entry, "start");
            now = entry_text(entry, "now");
            state->start = start ? atof(start) : 0;
            state->now = now ? atof(now) : unix_time() - state->start;
        }
    }
    return 1;
}

void state_free(State *state)
{
    free(state->entries);
    free(state->text);
}

const char *entry_text(const Entry *entry, const char *key)
{
    size_t length = strlen(key);
    for (int i = 0; entry && i < entry->count; i++)
        if (strncmp(entry->field[i], key, length) == 0 && entry->field[i][length] == '=')
            return entry->field[i] + length + 1;
    return NULL;
}

/* A plain number; integers keep all their 64 bits, which a double would not. */
static u64 plain_number(const char *text, char **end)
{
    u64 whole = strtoull(text, end, 10);
    return **end == '.' || **end == 'e' ? (u64)strtod(text, end) : whole;
}

u64 script_value(const char *script, double time)
{
    if (strcmp(script, "na") == 0)
        return NOT_AVAILABLE_64;
    int linear = *script == '~';
    if (linear)
        script++;
    if (strchr(script, ':') == NULL) {
        char *end;
        return plain_number(script, &end);
    }
    double earlier_time = 0;
    u64 earlier_value = 0;
    for (int first = 1;; first = 0) {
        char *end;
        double point_time = strtod(script, &end);
        u64 value = plain_number(end + 1, &end);
        if (time < point_time) {
            if (first)
                return value;
            if (!linear)
                return earlier_value;
            double share = (time - earlier_time) / (point_time - earlier_time);
            return (u64)((double)earlier_value + ((double)value - (double)earlier_value) * share);
        }
        if (*end != ',')
            return value;
        script = end + 1;
        earlier_time = point_time;
        earlier_value = value;
    }
}

u64 entry_number(const Entry *entry, const char *key, double time, u64 fallback)
{
    const char *text = entry_text(entry, key);
    return text ? script_value(text, time) : fallback;
}

int entry_is_current(const Entry *entry, double now)
{
    const char *from = entry_text(entry, "from"), *until = entry_text(entry, "until");
    return (from == NULL || now >= atof(from)) && (until == NULL || now < atof(until));
}

const char *option_text(const State *state, const char *key, const char *fallback)
{
    for (int i = 0; i < state->count; i++) {
        const char *text = strcmp(state->entries[i].kind, "option") == 0 ? entry_text(&state->entries[i], key) : NULL;
        if (text)
            return text;
    }
    return fallback;
}

int option_is_on(const State *state, const char *key)
{
    return atoi(option_text(state, key, "0")) != 0;
}

const Entry *find_gpu(const State *state, int gpu)
{
    for (int i = 0; i < state->count; i++)
        if (strcmp(state->entries[i].kind, "gpu") == 0 && (int)entry_number(&state->entries[i], "index", 0, 0) == gpu)
            return &state->entries[i];
    return NULL;
}

const Entry *find_mig(const State *state, int gpu, int mig)
{
    for (int i = 0; i < state->count; i++) {
        const Entry *entry = &state->entries[i];
        if (strcmp(entry->kind, "mig") == 0 && (int)entry_number(entry, "gpu", 0, 0) == gpu &&
            (int)entry_number(entry, "index", 0, 0) == mig)
            return entry;
    }
    return NULL;
}

int gpu_count(const State *state)
{
    int count = 0;
    for (int i = 0; i < state->count; i++)
        if (strcmp(state->entries[i].kind, "gpu") == 0) {
            int index = (int)entry_number(&state->entries[i], "index", 0, 0);
            count = index >= count ? index + 1 : count;
        }
    return count;
}
