/* What a stand-in library knows: memory that is given out, streams and events. A forked child knows nothing of it.
 *
 *     CUDA_STAND_IN_DEVICES    how many GPUs there are (4)
 *     CUDA_STAND_IN_MEMORY     bytes that each has (17179869184, 16 GiB)
 *     CUDA_STAND_IN_NOT_READY  how often a query answers cudaErrorNotReady after each launch and each record (0)
 *     CUDA_STAND_IN_GATE       path of a socket: the runtime's synchronisation of a stream connects to it, and returns when
 *                              the other side closes the connection
 *     CUDA_STAND_IN_NESTED     1: the runtime calls the driver inside its own calls, as the real one does
 *     CUDA_STAND_IN_LAUNCHES   so many launches of the runtime go well, and all after them fail as on a GPU that has failed
 *     CUDA_STAND_IN_LINGER     microseconds until a free returns that has given memory back: others may have it by
 *                              then (0)
 */
#pragma once
#include "../cuda.h"

#define API __attribute__((visibility("default")))

enum { MOST_DEVICES = 64, MOST_HANDLES = 1 << 16, MOST_THREADS = 1024 };

struct stand_in_handle {
    int used;
    int not_ready; /* so many queries are still answered so */
    int captured;  /* calls on this stream only make a graph */
};

struct stand_in_settings {
    int devices, not_ready, nested, linger;
    size_t memory, launches;
};

extern struct stand_in_settings stand_in_settings;
extern struct stand_in_handle stand_in_streams[MOST_HANDLES], stand_in_events[MOST_HANDLES];
extern struct stand_in_handle stand_in_graphs[MOST_HANDLES]; /* executable ones too */

/* Each returns an error code. */
int stand_in_take(void **pointer, size_t size, int device);
int stand_in_give_back(void *pointer);
void stand_in_give_back_all(int device);

int stand_in_open(struct stand_in_handle *handles, struct stand_in_handle **handle);
int stand_in_close(struct stand_in_handle *handles, struct stand_in_handle *handle);
int stand_in_query(struct stand_in_handle *handle);

/* stand_in_known: the handle itself, or the one that a number of a default stream means; NULL where there is none. */
struct stand_in_handle *stand_in_known(struct stand_in_handle *handles, struct stand_in_handle *handle);

void stand_in_wait_at_gate(void);

static inline int stand_in_can_launch(const dim3 *grid, const dim3 *block)
{
    size_t threads = (size_t)block->x * block->y * block->z;
    return grid->x && grid->y && grid->z && threads && threads <= MOST_THREADS;
}
