// Flags and counters of a launch: when a block last changed each address atomically. A block that looks at one learns from
// it what was published up to that change, not what others have published through other addresses.
#pragma once

namespace cudalab {

#if CUDALAB_RACES
class flag_times {
public:
    CUDALAB_UNWATCHED ~flag_times() { free(words); }
    CUDALAB_UNWATCHED void changed(const void* address, unsigned block, uint64_t now) {
        if (2 * count >= capacity) grow();
        if (!words) return;
        word& found = of(address);
        count += !found.number;
        found.number = number_of(address);
        if (found.block != block) found.earlier = found.latest, found.block = block;
        found.latest = now;
    }
    // When a block other than this one last changed what is at this address; 0: never.
    CUDALAB_UNWATCHED uint64_t of_others(const void* address, unsigned block) const {
        if (!count) return 0;
        const word& found = of(address);
        return found.block != block ? found.latest : found.earlier;
    }

private:
    // 8 bytes of memory: the block that changed them last, when it did, and when another one did before.
    struct word {
        uintptr_t number;  // 0: none
        uint64_t latest, earlier;
        unsigned block;
    };
    CUDALAB_UNWATCHED static uintptr_t number_of(const void* address) { return uintptr_t(address) / 8; }
    CUDALAB_UNWATCHED word& of(const void* address) const {
        const uintptr_t number = number_of(address);
        size_t i = size_t(number * 0x9e3779b97f4a7c15ull) >> 20;
        for (i %= capacity; words[i].number && words[i].number != number;) i = (i + 1) % capacity;
        return words[i];
    }
    CUDALAB_UNWATCHED void grow() {
        const flag_times old = *this;
        capacity = capacity ? 4 * capacity : 64;
        words = static_cast<word*>(calloc(capacity, sizeof(word)));
        for (size_t i = 0; words && i < old.capacity; ++i)
            if (old.words[i].number) of(reinterpret_cast<const void*>(8 * old.words[i].number)) = old.words[i];
        if (!words) capacity = count = 0;
    }
    word* words = nullptr;
    size_t capacity = 0, count = 0;
};
#endif

}  // namespace cudalab
