/*
 * Tierra's replicated buffers of integers. Link with libtierra_buffers.so (-ltierra_buffers). docs/embedding.md introduces them, and
 * examples/buffers.c uses all of them.
 *
 * A buffer is an ordered list of int64_t that only grows. Each of its replicas lies in a tier of memory, in an encoding of its own.
 *
 * Errors.    Every function but tierra_message returns 0 (TIERRA_OK), or a number of enum tierra_status. Unless TIERRA_UNKNOWN is
 *            returned, a call that fails has changed nothing, and what it was to fill in may hold anything.
 * Handles.   tierra_buffers, tierra_buffer and tierra_reader are numbers, copied as they are. A handle that was closed, or of another
 *            kind, is TIERRA_HANDLE; a number is never used again. {0} is none.
 * Threads.   Every function may be called by any thread at any time, with the same handles too. Appends to a buffer wait for each other.
 *            A handle that one thread closes while another uses it stays until that call returns.
 * Memory.    The library keeps no pointer that it is given, and gives none that the caller has to free. Pointers must be aligned for
 *            their types. NULL is TIERRA_INVALID, but where 0 things are passed, or NULL has a meaning that is told here. What is
 *            read and what is filled in must not overlap.
 * Texts      are UTF-8 and end with a zero.
 * Forks.     A fork of the process can use none of this: TIERRA_INVALID.
 */
#ifndef TIERRA_BUFFERS_H
#define TIERRA_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tierra_status {
    TIERRA_OK = 0,
    TIERRA_INVALID = 1,    /* an argument is wrong */
    TIERRA_HANDLE = 2,     /* the handle is none, was closed, or is of another kind */
    TIERRA_NOT_FOUND = 3,  /* there is no such buffer, tier or encoding */
    TIERRA_EXISTS = 4,     /* the name is taken */
    TIERRA_DELETED = 5,    /* the buffer was deleted by another handle */
    TIERRA_RANGE = 6,      /* there is no such position or block */
    TIERRA_ROOM = 7,       /* the sum, or a block, does not fit into the place for it */
    TIERRA_FULL = 8,       /* a tier is full */
    TIERRA_UNREADABLE = 9, /* stored bytes are damaged in all copies, or lie in missing tiers */
    TIERRA_UNKNOWN = 10,   /* whether it was stored is known when the directory is opened again */
    TIERRA_STORAGE = 11,   /* a file, a device or memory failed, or the set was closed */
    TIERRA_DEFECT = 12     /* a mistake of Tierra's: please report the message */
};

/* Whether a buffer has a copy in near memory besides its replicas; it is volatile, and made in the background. */
enum {
    TIERRA_NEAR_IF_ROOM = 0, /* while there is room, the buffers that are read most */
    TIERRA_NEAR_FIRST = 1,   /* before others */
    TIERRA_NEAR_NEVER = 2
};

/* How a reader is going to read. */
enum {
    TIERRA_SEQUENTIAL = 0, /* all values, or long runs of them */
    TIERRA_RANDOM = 1,     /* single values */
    TIERRA_SHARE = 2       /* a share of the values, spread over all */
};

/* How a block is packed. */
enum {
    /* Codes of `width` bits, one after the other, the lowest bit first: code i is the bits from i * width on. A value is its code
     * plus `base`, modulo 2^64. */
    TIERRA_PACKED = 0,
    /* 1024 / mini_block widths in bits, a byte each, then the codes of one mini-block of `mini_block` codes after the other, each
     * from a byte on. A value is its code plus `base`, modulo 2^64. */
    TIERRA_MINI_BLOCKS = 1,
    /* Anything else. docs/file-format.md describes it; tierra_reader_values decodes it. */
    TIERRA_CODED = 2
};

/* The most values of a block. */
#define TIERRA_BLOCK_VALUES 1024
/* Room for the bytes of any block, and for reading whole words at its end. */
#define TIERRA_BLOCK_BYTES 16384

typedef struct tierra_buffers { uint64_t number; } tierra_buffers;
typedef struct tierra_buffer { uint64_t number; } tierra_buffer;
typedef struct tierra_reader { uint64_t number; } tierra_reader;

/* A tier besides the first one, which is "far" and lies in the directory. */
typedef struct tierra_tier {
    const char *name; /* 1 to 64 letters, digits, '-' and '_' */
    const char *pool; /* the path of its file or DAX device */
} tierra_tier;

typedef struct tierra_options {
    const tierra_tier *tiers; /* those that the set does not have are added; those that it has stay where they are */
    size_t tiers_count;
    uint64_t near_bytes;      /* near memory for copies; 0: a quarter of what the process may have */
    uint64_t far_bytes;       /* the most bytes of the pool of "far"; 0: limited by the file system */
} tierra_options;

/* Opens the buffers of a directory, or makes the directory. One process opens it at a time, once. `options` may be NULL: near memory
 * as by default, no tier but "far". Fills in `buffers`, which the caller closes. */
int tierra_buffers_open(const char *directory, const tierra_options *options, tierra_buffers *buffers);

/* Closes a set and stops writing; everything that was appended is durable already. Handles of its buffers and readers stay: appends
 * fail, and readers go on. The directory can be opened again when these are closed, too. */
int tierra_buffers_close(tierra_buffers buffers);

/* Makes an empty buffer; it is durable on return. `replicas` names tiers, or tier/encoding, with commas between, the one that is written first
 * at the head: "far/static, b/dynamic". Without an encoding it is the one that fits the values. NULL: one replica in "far". The
 * encodings are plain, static, dynamic, dynamic128, for, delta, fastpfor, rle, lz4, lz4-fast, lz4-hc, snappy; and dictionary, in the first
 * replica. Values that cannot be encoded as asked are plain. `near` is one of TIERRA_NEAR_... No size is told: pools grow with
 * what is written. Fills in `buffer`, which the caller releases or deletes. */
int tierra_buffers_allocate(tierra_buffers buffers, const char *name, const char *replicas, int near, tierra_buffer *buffer);

/* Finds a buffer by its name. Fills in `buffer`, which the caller releases or deletes. */
int tierra_buffers_find(tierra_buffers buffers, const char *name, tierra_buffer *buffer);

/* Appends `count` values in their order: all of them, durable in all tiers on return, or none. One call is one commit, and waits for
 * memory or a device once: append many at a time where that is possible. `values` may be NULL if `count` is 0. */
int tierra_buffer_append(tierra_buffer buffer, const int64_t *values, size_t count);

/* Encodes in all replicas what is staged: few values are first written to a log in each tier, and encoded when 2^20 have come together. */
int tierra_buffer_pack(tierra_buffer buffer);

/* Deletes a buffer with all replicas, durably, and its handle with it. Other handles of it become TIERRA_DELETED; readers go on, and
 * the space is free when the last one is closed. */
int tierra_buffer_delete(tierra_buffer buffer);

/* Gives a handle of a buffer back. The buffer stays. */
int tierra_buffer_release(tierra_buffer buffer);

typedef struct tierra_buffer_info {
    uint64_t count;  /* values */
    uint64_t staged; /* those of them that are in the logs of the tiers, and in no replica yet */
    size_t replicas; /* the number of replicas, of which each tier with a copy is one */
} tierra_buffer_info;

typedef struct tierra_replica_info {
    char tier[65];         /* the tier's name */
    char encoding[16];     /* the encoding that was asked for; empty: none */
    char stored_as[128];   /* the encodings that values are stored in there, with ", " between; empty: nothing is stored */
    uint8_t is_missing;    /* 1: the tier is missing */
    uint64_t values;       /* values that it has */
    uint64_t stored_bytes; /* bytes of these */
} tierra_replica_info;

/* Tells what a buffer consists of: its numbers, and of its replicas as many as there is room for. `replicas` is an array of `room`; it
 * may be NULL if `room` is 0. */
int tierra_buffer_tell(tierra_buffer buffer, tierra_buffer_info *info, tierra_replica_info *replicas, size_t room);

/* Makes a reader of all values that are there now, and of none that come later. Of each part of the buffer it reads the replica that
 * suits `pattern`, one of TIERRA_SEQUENTIAL, .._RANDOM and .._SHARE; `share`, from 0 to 1, is of TIERRA_SHARE alone. Fills in `reader`,
 * which the caller closes; until then the space of what it reads stays taken. */
int tierra_buffer_read(tierra_buffer buffer, int pattern, double share, tierra_reader *reader);

typedef struct tierra_reader_info {
    uint64_t count;  /* values */
    uint64_t blocks; /* blocks, of up to TIERRA_BLOCK_VALUES values */
    size_t sources;  /* combinations of a tier and an encoding that it reads */
} tierra_reader_info;

typedef struct tierra_source {
    char tier[65];     /* the tier's name, or "near": a copy in near memory */
    char encoding[16]; /* the encoding */
    uint64_t values;   /* values that are read so; staged ones are in no source */
} tierra_source;

/* Tells a reader's numbers, and of its sources as many as there is room for. `sources` is an array of `room`; it may be NULL if `room`
 * is 0. */
int tierra_reader_tell(tierra_reader reader, tierra_reader_info *info, tierra_source *sources, size_t room);

/* The sum of all values: `sum` is its lower 64 bits, and `high`, unless it is NULL, its upper 64. Without `high`, a sum that does not fit
 * into `sum` is TIERRA_ROOM. */
int tierra_reader_sum(tierra_reader reader, int64_t *sum, int64_t *high);

/* Fills `values` with the `count` values from position `first` on; positions count from 0. TIERRA_RANGE: there are not so many. */
int tierra_reader_values(tierra_reader reader, uint64_t first, int64_t *values, size_t count);

/* Fills `values` with those at `count` positions, in their order. TIERRA_RANGE: there is no such position. */
int tierra_reader_at(tierra_reader reader, const uint64_t *positions, int64_t *values, size_t count);

typedef struct tierra_block {
    uint64_t position;   /* the position of its first value */
    uint32_t first_code; /* the number of the code that this value has; mostly 0 */
    uint32_t count;      /* values, whose codes follow each other */
    size_t bytes;        /* its length in bytes */
    int64_t base;        /* what is added to a code */
    uint32_t packing;    /* TIERRA_PACKED, .._MINI_BLOCKS or .._CODED */
    uint32_t width;      /* TIERRA_PACKED: bits of a code, 0 to 64 */
    uint32_t mini_block; /* TIERRA_MINI_BLOCKS: codes of a mini-block */
    char encoding[16];   /* the encoding; empty of staged values, which are packed at 64 bits */
} tierra_block;

/* Copies a block as it is stored into `bytes`, and tells how it is packed. Blocks count from 0, in the order of their positions. `room` is the length
 * of `bytes`; TIERRA_BLOCK_BYTES are enough. What lies there behind the block is set to 0. TIERRA_ROOM: `block` is filled in, and
 * block->bytes are needed. The bytes matched their checksum, or were made again of another replica. */
int tierra_reader_block(tierra_reader reader, uint64_t number, tierra_block *block, void *bytes, size_t room);

/* Closes a reader. */
int tierra_reader_close(tierra_reader reader);

/* Why the last call of this thread that failed did. Valid until the thread's next call that fails, or its end. Never NULL. */
const char *tierra_message(void);

#ifdef __cplusplus
}
#endif

#endif
