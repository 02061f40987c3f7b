/* Clients of the statistics daemon for atop, many in one process.
 *
 *     atop_clients ADDRESS VERSION CLIENTS SECONDS MANNER
 *
 * ADDRESS is a port of 127.0.0.1, or @ and the name of an abstract socket. Each client connects and asks T and S in
 * that version of the protocol. Then "ready" is printed, and after a line on standard input they ask S for so many
 * seconds:
 *
 *     again     each as soon as it has its answer
 *     spread    each once in every second, all evenly spread over the second
 *     together  each once in every second, all at the same moment of it
 *
 * That moment is another one in each second, since the daemon looks at its GPUs once a second too. At the end "done"
 * is printed with the number of answers, their bytes and the seconds; then in a line each the nanoseconds from before
 * a request until its answer is complete, of the last two manners.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 4, LONGEST = 8192, MOST_EVENTS = 256 };

static const int64_t SECOND = 1000000000;
/* Multiples of it, without their whole parts, lie evenly in 0 to 1, whatever their number. */
static const double GOLDEN_SECTION = 0.6180339887498949;

typedef struct {
    int socket;
    int is_waiting;
    int64_t asked;
    size_t received, length; /* the length is known with the head */
    unsigned char head[HEAD];
} Client;

typedef struct { int64_t due; int client; } Event;

static unsigned char version;
static uint64_t n_answers, n_bytes;

static void give_up(const char *what)
{
    fprintf(stderr, "%s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

static int connected(const char *address)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int is_local = *address == '@', result;
    int connection = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0)
        give_up("socket");
    if (is_local) {
        size_t length = strlen(address + 1);
        memcpy(local.sun_path + 1, address + 1, length < sizeof local.sun_path - 1 ? length : 0);
        result = connect(connection, (struct sockaddr *)&local,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
    } else {
        port.sin_port = htons((uint16_t)atoi(address));
        result = connect(connection, (struct sockaddr *)&port, sizeof port);
    }
    if (result != 0)
        give_up("connect");
    return connection;
}

static void ask(Client *client, char command)
{
    const unsigned char request[2] = {(unsigned char)command, version};
    client->is_waiting = 1;
    client->received = 0;
    client->asked = now();
    if (send(client->socket, request, sizeof request, MSG_NOSIGNAL) != sizeof request)
        give_up("send");
}

/* Takes what has come, and tells whether that is all of the answer. */
static int take(Client *client, int flags)
{
    static unsigned char body[LONGEST];
    int in_head = client->received < HEAD;
    struct iovec places[] = {{client->head + client->received, in_head ? HEAD - client->received : 0},
                             {body, sizeof body}};
    struct msghdr message = {.msg_iov = places, .msg_iovlen = 2};
    ssize_t count = recvmsg(client->socket, &message, flags);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (count <= 0)
        give_up("a connection has ended");
    client->received += (size_t)count;
    if (client->received < HEAD)
        return 0;
    if (in_head) {
        client->length = HEAD + ((size_t)client->head[1] << 16 | (size_t)client->head[2] << 8 | client->head[3]);
        if (client->head[0] != version || client->length > HEAD + LONGEST)
            give_up("an answer is in another version, or too long for atop");
    }
    if (client->received < client->length)
        return 0;
    if (!client->is_waiting || client->received > client->length)
        give_up("more has come than was asked for");
    client->is_waiting = 0;
    return 1;
}

static void exchange(Client *client, char command)
{
    ask(client, command);
    while (!take(client, 0))
        ;
}

static void count(const Client *client)
{
    n_answers++;
    n_bytes += client->length;
}

/* Takes what has come for all clients. The timer, where there is one, has only to wake us. */
static void take_all(int queue, Client *clients, int is_again, int64_t end, int64_t *waited)
{
    struct epoll_event events[MOST_EVENTS];
    int number = epoll_wait(queue, events, MOST_EVENTS, -1);
    if (number < 0 && errno != EINTR)
        give_up("epoll_wait");
    for (int i = 0; i < number; i++) {
        if (events[i].data.u64 == UINT64_MAX)
            continue;
        Client *client = &clients[events[i].data.u64];
        if (!take(client, MSG_DONTWAIT))
            continue;
        int64_t time = now();
        if (waited)
            waited[n_answers] = time - client->asked;
        count(client);
        if (is_again && time < end)
            ask(client, 'S');
    }
}

static void ask_again(int queue, Client *clients, int number, int64_t end)
{
    for (int i = 0; i < number; i++)
        ask(&clients[i], 'S');
    for (;;) {
        take_all(queue, clients, 1, end, NULL);
        if (now() < end)
            continue;
        int are_waiting = 0;
        for (int i = 0; i < number; i++)
            are_waiting |= clients[i].is_waiting;
        if (!are_waiting)
            return;
    }
}

static int earlier(const void *a, const void *b)
{
    int64_t first = ((const Event *)a)->due, second = ((const Event *)b)->due;
    return (first > second) - (first < second);
}

static double fraction(double number)
{
    return number - (double)(int64_t)number;
}

static void ask_once_a_second(int queue, Client *clients, int number, int seconds, int is_spread, int64_t *waited)
{
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLET, .data.u64 = UINT64_MAX};
    Event *events = calloc((size_t)number * (size_t)seconds, sizeof *events);
    if (timer < 0 || events == NULL || epoll_ctl(queue, EPOLL_CTL_ADD, timer, &wanted) != 0)
        give_up("timer");
    int64_t start = now();
    size_t n_events = 0, next = 0;
    for (int second = 0; second < seconds; second++)
        for (int i = 0; i < number; i++) {
            double share = is_spread ? (double)i / number : 0;
            double moment = second + fraction(share + second * GOLDEN_SECTION);
            events[n_events++] = (Event){start + (int64_t)(moment * (double)SECOND), i};
        }
    qsort(events, n_events, sizeof *events, earlier);
    while (n_answers < n_events) {
        for (; next < n_events && events[next].due <= now(); next++) {
            Client *client = &clients[events[next].client];
            if (client->is_waiting) {
                errno = 0;
                give_up("a client had no answer when it was to ask again");
            }
            ask(client, 'S');
        }
        struct itimerspec when = {0}; /* never */
        if (next < n_events)
            when.it_value = (struct timespec){events[next].due / SECOND, events[next].due % SECOND};
        if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL) != 0)
            give_up("timer");
        take_all(queue, clients, 0, 0, waited);
    }
    free(events);
    close(timer);
}

static void allow_files(void)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

int main(int n_words, char **words)
{
    if (n_words != 6) {
        fputs("usage: atop_clients ADDRESS VERSION CLIENTS SECONDS again|spread|together\n", stderr);
        return 2;
    }
    version = (unsigned char)atoi(words[2]);
    int number = atoi(words[3]), seconds = atoi(words[4]), is_again = strcmp(words[5], "again") == 0;
    Client *clients = calloc((size_t)number, sizeof *clients);
    int64_t *waited = calloc((size_t)number * (size_t)seconds, sizeof *waited);
    int queue = epoll_create1(EPOLL_CLOEXEC);
    allow_files();
    for (int i = 0; i < number; i++) {
        clients[i].socket = connected(words[1]);
        exchange(&clients[i], 'T');
        exchange(&clients[i], 'S');
        struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = (uint64_t)i};
        if (epoll_ctl(queue, EPOLL_CTL_ADD, clients[i].socket, &wanted) != 0)
            give_up("epoll_ctl");
    }
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF)
        return 1;
    int64_t start = now();
    if (is_again)
        ask_again(queue, clients, number, start + seconds * SECOND);
    else
        ask_once_a_second(queue, clients, number, seconds, strcmp(words[5], "spread") == 0, waited);
    printf("done %llu %llu %.6f\n", (unsigned long long)n_answers, (unsigned long long)n_bytes,
           (double)(now() - start) / (double)SECOND);
    fflush(stdout);
    for (uint64_t i = 0; i < n_answers && !is_again; i++)
        printf("%lld\n", (long long)waited[i]);
    return 0;
}
