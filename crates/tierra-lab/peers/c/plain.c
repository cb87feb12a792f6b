// What a 4-byte durable update and a durable append cost at least: the instructions themselves, on the
// memory that the caller hands over.

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

// Stores `value` at each position in turn and makes it durable before the next: by clwb, or by
// clflushopt, which evicts the line.
void tierra_peer_update(uint32_t *array, const uint32_t *positions, size_t count, uint32_t value, int evict) {
    if (evict) {
        for (size_t i = 0; i < count; i++) {
            uint32_t *place = &array[positions[i]];
            *(volatile uint32_t *)place = value;
            _mm_clflushopt(place);
            _mm_sfence();
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            uint32_t *place = &array[positions[i]];
            *(volatile uint32_t *)place = value;
            _mm_clwb(place);
            _mm_sfence();
        }
    }
}

// Stores `value` at each position in turn in every copy, and makes it durable in all of them by one fence before
// the next: what an update of as many copies costs at least.
void tierra_peer_update_copies(uint32_t *const *arrays, size_t copies, const uint32_t *positions, size_t count,
                               uint32_t value, int evict) {
    for (size_t i = 0; i < count; i++) {
        for (size_t copy = 0; copy < copies; copy++) {
            uint32_t *place = &arrays[copy][positions[i]];
            *(volatile uint32_t *)place = value;
            if (evict) {
                _mm_clflushopt(place);
            } else {
                _mm_clwb(place);
            }
        }
        _mm_sfence();
    }
}

// Copies whole lines to every copy past the cache, one copy after the other, and fences once.
void tierra_peer_append(uint8_t *const *to, size_t copies, const uint8_t *from, size_t len) {
    for (size_t copy = 0; copy < copies; copy++) {
        for (size_t at = 0; at < len; at += 64) {
            _mm512_stream_si512((__m512i *)(to[copy] + at), _mm512_loadu_si512(from + at));
        }
    }
    _mm_sfence();
}
