// PMDK's pool replication as a peer: an array of 4-byte integers in a pool set, updated as lines on
// standard input say.
//
//   pmdk POOLSET POSITIONS ELEMENTS     makes the pool set and an array of zeros in it
//   put FROM COUNT VALUE                stores VALUE at COUNT positions, each made durable by itself
//   tx FROM COUNT VALUE                 the same, each in a transaction
//
// POSITIONS is a file of 4-byte numbers below ELEMENTS, of which FROM is the first to take. An answer
// is one line: at first "ready", the array's place in the pool and the library's version, then the
// nanoseconds of each command, or "error" and why.

#include <fcntl.h>
#include <inttypes.h>
#include <libpmemobj.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int fail(const char *what) {
    printf("error %s\n", what);
    fflush(stdout);
    return 1;
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 4) return fail("usage: pmdk POOLSET POSITIONS ELEMENTS");
    size_t elements = strtoull(arguments[3], NULL, 10);

    int file = open(arguments[2], O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) return fail("cannot open the positions");
    size_t positions_count = (size_t)status.st_size / sizeof(uint32_t);
    const uint32_t *positions = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    if (positions == MAP_FAILED) return fail("cannot map the positions");

    PMEMobjpool *pool = pmemobj_create(arguments[1], "tierra-lab", 0, 0600);
    if (pool == NULL) return fail(pmemobj_errormsg());
    PMEMoid root;
    if (pmemobj_alloc(pool, &root, elements * sizeof(uint32_t), 1, NULL, NULL) != 0) return fail(pmemobj_errormsg());
    uint32_t *array = pmemobj_direct(root);
    pmemobj_memset_persist(pool, array, 0, elements * sizeof(uint32_t));
    printf("ready %" PRIu64 " %d.%d\n", (uint64_t)root.off, PMEMOBJ_MAJOR_VERSION, PMEMOBJ_MINOR_VERSION);
    fflush(stdout);

    char command[8];
    size_t from, updates;
    uint32_t value;
    while (scanf("%7s %zu %zu %" SCNu32, command, &from, &updates, &value) == 4) {
        if (from + updates > positions_count) return fail("beyond the positions");
        const uint32_t *taken = positions + from;
        uint64_t start = now_ns();
        if (strcmp(command, "put") == 0) {
            for (size_t i = 0; i < updates; i++) {
                uint32_t *place = &array[taken[i]];
                *place = value;
                pmemobj_persist(pool, place, sizeof *place);
            }
        } else if (strcmp(command, "tx") == 0) {
            for (size_t i = 0; i < updates; i++) {
                uint32_t *place = &array[taken[i]];
                TX_BEGIN(pool) {
                    pmemobj_tx_add_range_direct(place, sizeof *place);
                    *place = value;
                } TX_ONABORT {
                    return fail(pmemobj_errormsg());
                } TX_END
            }
        } else {
            return fail("no such command");
        }
        uint64_t time = now_ns() - start;
        for (size_t i = 0; i < updates; i++) {
            if (array[taken[i]] != value) return fail("an update is not there");
        }
        printf("%" PRIu64 "\n", time);
        fflush(stdout);
    }
    pmemobj_close(pool);
    return 0;
}
