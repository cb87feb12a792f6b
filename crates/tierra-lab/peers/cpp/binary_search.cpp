// Binary search as C++20 coroutines: the peer of Tierra's interleaved lookups.
//
// The search is listing 1 of Psaropoulos et al., "Bridging the Latency Gap between NVM and DRAM for
// Latency-bound Operations" (DaMoN 2019), already elided: one coroutine a lookup, no nested task.
// Frames come from a list of frames used before. Two schedulers, since neither is the faster one
// everywhere: a loop that resumes the lanes in turn, and the paper's own, where a lookup that
// suspends resumes the next one with a tail call.
//
// Compiled by the lab with clang++ -O3 -march=native, and called in its process on its array.

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>

namespace {

constexpr int MAX_LANES = 64;

// Frames of one coroutine type all have the same size.
struct FrameList {
    struct Frame { Frame *next; };
    Frame *first = nullptr;
    ~FrameList() {
        while (first) {
            Frame *next = first->next;
            ::operator delete(first);
            first = next;
        }
    }
    void *take(std::size_t bytes) {
        if (!first) return ::operator new(bytes);
        Frame *frame = first;
        first = frame->next;
        return frame;
    }
    void give(void *frame) { first = new (frame) Frame{first}; }
};


// Resumed in turn by a loop.
struct Looped {
    struct promise_type {
        static inline FrameList frames;
        static void *operator new(std::size_t bytes) { return frames.take(bytes); }
        static void operator delete(void *frame, std::size_t) { frames.give(frame); }
        Looped get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};

struct Prefetch {
    const std::int32_t *place;
    bool await_ready() const noexcept {
        __builtin_prefetch(place);
        return false;
    }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    std::int32_t await_resume() const noexcept { return *place; }
};

Looped search_looped(const std::int32_t *array, std::size_t size, std::int32_t value,
                     std::size_t *rank) {
    std::size_t low = 0;
    while (size > 1) {
        const std::size_t half = size / 2;
        const std::int32_t probed = co_await Prefetch{array + low + half};
        low = probed <= value ? low + half : low;
        size -= half;
    }
    *rank = low;
}

void run_looped(const std::int32_t *array, std::size_t size, const std::int32_t *values,
                std::size_t count, std::size_t *ranks, std::size_t group) {
    std::coroutine_handle<Looped::promise_type> lanes[MAX_LANES];
    std::size_t next = 0, live = 0;
    for (; live < group && next < count; ++live, ++next)
        lanes[live] = search_looped(array, size, values[next], ranks + next).handle;
    while (live > 0) {
        for (std::size_t lane = 0; lane < live;) {
            lanes[lane].resume();
            if (__builtin_expect(lanes[lane].done(), 0)) {
                lanes[lane].destroy();
                if (next == count) {
                    lanes[lane] = lanes[--live];
                    continue;
                }
                lanes[lane] = search_looped(array, size, values[next], ranks + next).handle;
                ++next;
            }
            ++lane;
        }
    }
}

// Resumed by each other.
struct Ring {
    const std::int32_t *array;
    std::size_t size;
    const std::int32_t *values;
    std::size_t count;
    std::size_t *ranks;
    std::size_t next = 0, live = 0, lane = 0;
    std::coroutine_handle<> lanes[MAX_LANES] = {};
    // The lane whose turn it is after that of `lane`.
    std::coroutine_handle<> turn() noexcept {
        lane = lane + 1 < live ? lane + 1 : 0;
        return lanes[lane];
    }
    std::coroutine_handle<> ended(std::coroutine_handle<> self) noexcept;
};

struct Chained {
    struct promise_type {
        static inline FrameList frames;
        Ring &ring;
        promise_type(Ring &ring, std::int32_t, std::size_t *) : ring(ring) {}
        static void *operator new(std::size_t bytes) { return frames.take(bytes); }
        static void operator delete(void *frame, std::size_t) { frames.give(frame); }
        Chained get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        auto final_suspend() noexcept {
            struct End {
                Ring &ring;
                bool await_ready() noexcept { return false; }
                std::coroutine_handle<> await_suspend(std::coroutine_handle<> self) noexcept {
                    return ring.ended(self);
                }
                void await_resume() noexcept {}
            };
            return End{ring};
        }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};

struct PrefetchThenNext {
    const std::int32_t *place;
    Ring &ring;
    bool await_ready() const noexcept {
        __builtin_prefetch(place);
        return false;
    }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<>) const noexcept { return ring.turn(); }
    std::int32_t await_resume() const noexcept { return *place; }
};

Chained search_chained(Ring &ring, std::int32_t value, std::size_t *rank) {
    const std::int32_t *array = ring.array;
    std::size_t low = 0, size = ring.size;
    while (size > 1) {
        const std::size_t half = size / 2;
        const std::int32_t probed = co_await PrefetchThenNext{array + low + half, ring};
        low = probed <= value ? low + half : low;
        size -= half;
    }
    *rank = low;
}

std::coroutine_handle<> Ring::ended(std::coroutine_handle<> self) noexcept {
    // The ended coroutine is suspended; nothing of it is touched after this.
    self.destroy();
    if (next < count) {
        lanes[lane] = search_chained(*this, values[next], ranks + next).handle;
        ++next;
        return lanes[lane];
    }
    if (--live == 0) return std::noop_coroutine();
    lanes[lane] = lanes[live];
    if (lane == live) lane = 0;
    return lanes[lane];
}

void run_chained(const std::int32_t *array, std::size_t size, const std::int32_t *values,
                 std::size_t count, std::size_t *ranks, std::size_t group) {
    Ring ring{array, size, values, count, ranks};
    for (; ring.live < group && ring.next < count; ++ring.live, ++ring.next)
        ring.lanes[ring.live] =
            search_chained(ring, values[ring.next], ranks + ring.next).handle;
    if (ring.live > 0) ring.lanes[0].resume();
}

}  // namespace

// The place of the last element not above each value, or 0. `size` is at least 1, `group` 1 to 64.
extern "C" void tierra_peer_binary_search(const std::int32_t *array, std::size_t size,
                                          const std::int32_t *values, std::size_t count,
                                          std::size_t *ranks, std::size_t group, bool chained) {
    if (size == 1) {
        // Nothing to suspend at, which the loop does not expect of a lookup.
        for (std::size_t i = 0; i < count; ++i) ranks[i] = 0;
        return;
    }
    (chained ? run_chained : run_looped)(array, size, values, count, ranks, group);
}
