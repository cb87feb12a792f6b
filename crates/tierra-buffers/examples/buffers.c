/*
 * All of Tierra's replicated buffers: allocate one with two replicas, append, read by the replica that suits, unpack blocks, delete.
 *
 *     cargo build --release -p tierra-buffers
 *     cc -I crates/tierra-buffers/include crates/tierra-buffers/examples/buffers.c -L target/release -ltierra_buffers -o buffers
 *     LD_LIBRARY_PATH=target/release ./buffers /dev/shm/my-buffers
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tierra_buffers.h"

#define VALUES 100000

/* Every call returns 0, or why it failed; the thread's message says more. */
static void must(int status, const char *what) {
    if (status != TIERRA_OK) {
        fprintf(stderr, "%s: error %d: %s\n", what, status, tierra_message());
        exit(1);
    }
}
#define MUST(call) must((call), #call)

/* Code number `at` of codes of `width` bits, the lowest bit first. */
static uint64_t code(const uint8_t *codes, uint32_t width, uint32_t at) {
    uint64_t bit = (uint64_t)at * width, word;
    uint32_t shift = bit % 8;
    if (width == 0) {
        return 0;
    }
    memcpy(&word, codes + bit / 8, 8);
    word >>= shift;
    if (shift + width > 64) {
        word |= (uint64_t)codes[bit / 8 + 8] << (64 - shift);
    }
    return width == 64 ? word : word & (((uint64_t)1 << width) - 1);
}

/* The sum of a block's values, from its packed codes where it has any. */
static int64_t block_sum(tierra_reader reader, const tierra_block *block, const uint8_t *bytes) {
    uint64_t sum = 0;
    uint32_t end = block->first_code + block->count;
    if (block->packing == TIERRA_PACKED) {
        for (uint32_t at = block->first_code; at < end; at++) {
            sum += code(bytes, block->width, at) + (uint64_t)block->base;
        }
    } else if (block->packing == TIERRA_MINI_BLOCKS) {
        const uint8_t *widths = bytes, *codes = bytes + TIERRA_BLOCK_VALUES / block->mini_block;
        for (uint32_t first = 0; first < end; first += block->mini_block) {
            for (uint32_t at = 0; at < block->mini_block; at++) {
                if (first + at >= block->first_code && first + at < end) {
                    sum += code(codes, *widths, at) + (uint64_t)block->base;
                }
            }
            codes += block->mini_block / 8 * *widths++;
        }
    } else {
        int64_t values[TIERRA_BLOCK_VALUES];
        MUST(tierra_reader_values(reader, block->position, values, block->count));
        for (uint32_t at = 0; at < block->count; at++) {
            sum += (uint64_t)values[at];
        }
    }
    return (int64_t)sum;
}

static void read_all(tierra_buffer buffer, int pattern, const char *name) {
    tierra_reader reader;
    tierra_reader_info info;
    tierra_source sources[4];
    static uint8_t bytes[TIERRA_BLOCK_BYTES];
    int64_t sum, by_blocks = 0;

    /* A reader sees the values of this moment, whatever is appended meanwhile. */
    MUST(tierra_buffer_read(buffer, pattern, 0, &reader));
    MUST(tierra_reader_tell(reader, &info, sources, 4));
    printf("%s: %" PRIu64 " values in %" PRIu64 " blocks, read from", name, info.count, info.blocks);
    for (size_t at = 0; at < info.sources && at < 4; at++) {
        printf(" %s/%s", sources[at].tier, sources[at].encoding);
    }
    printf("\n");

    MUST(tierra_reader_sum(reader, &sum, NULL));
    for (uint64_t number = 0; number < info.blocks; number++) {
        tierra_block block;
        MUST(tierra_reader_block(reader, number, &block, bytes, sizeof bytes));
        by_blocks += block_sum(reader, &block, bytes);
    }
    printf("%s: sum %" PRId64 ", by packed blocks %" PRId64 "\n", name, sum, by_blocks);

    uint64_t positions[3] = {99999, 0, 4711};
    int64_t values[3];
    MUST(tierra_reader_at(reader, positions, values, 3));
    printf("%s: at 99999, 0, 4711: %" PRId64 ", %" PRId64 ", %" PRId64 "\n", name, values[0], values[1], values[2]);
    MUST(tierra_reader_close(reader));
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: buffers DIRECTORY\n");
        return 2;
    }
    char pool[4096];
    snprintf(pool, sizeof pool, "%s.b-pool", arguments[1]);
    tierra_tier tiers[1] = {{"b", pool}};
    tierra_options options = {tiers, 1, 64 << 20, 0};
    tierra_buffers set;
    tierra_buffer prices;

    /* Two tiers: "far" lies in the directory, "b" wherever we say, on another device for instance. */
    MUST(tierra_buffers_open(arguments[1], &options, &set));
    /* Two replicas: random access in one, fewer bytes in the other; and no copy in near memory, so that one sees which is read. */
    MUST(tierra_buffers_allocate(set, "prices", "far/static, b/dynamic", TIERRA_NEAR_NEVER, &prices));

    /* Mostly small values, now and then a large one. */
    int64_t *values = malloc(VALUES * sizeof *values);
    for (int64_t at = 0; at < VALUES; at++) {
        values[at] = at % 1000 == 7 ? 1000000 + at : at % 100 - 50;
    }
    MUST(tierra_buffer_append(prices, values, VALUES - 1)); /* durable in both tiers now */
    MUST(tierra_buffer_append(prices, &values[VALUES - 1], 1));
    free(values);

    tierra_buffer_info info;
    tierra_replica_info replicas[2];
    MUST(tierra_buffer_tell(prices, &info, replicas, 2));
    printf("%" PRIu64 " values, %" PRIu64 " staged\n", info.count, info.staged);
    for (size_t at = 0; at < info.replicas && at < 2; at++) {
        printf("%s: %s, %" PRIu64 " values in %" PRIu64 " bytes\n", replicas[at].tier, replicas[at].stored_as,
               replicas[at].values, replicas[at].stored_bytes);
    }

    read_all(prices, TIERRA_RANDOM, "random");
    MUST(tierra_buffer_pack(prices)); /* what was staged is in both replicas now */
    read_all(prices, TIERRA_SEQUENTIAL, "sequential");

    MUST(tierra_buffer_delete(prices));
    int status = tierra_buffer_pack(prices); /* before its message is asked for */
    printf("used after it was deleted: error %d: %s\n", status, tierra_message());
    MUST(tierra_buffers_close(set));
    return 0;
}
