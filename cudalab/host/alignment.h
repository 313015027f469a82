// A misaligned access ends a launch on a GPU ("misaligned address"). Here it would go unnoticed, or kill the process
// where g++ chose an instruction that wants alignment. So g++ is told to check (-fsanitize=alignment), and calls this.
#pragma once

namespace cudalab {

// What the compiler passes, as laid down by the interface to libubsan (ubsan_handlers.h), which we stand in for.
struct source_location {
    const char* file;
    uint32_t line, column;
};
struct type_description {
    uint16_t kind, info;
    char name[1];  // in quotes
};
struct mismatch {
    source_location where;
    const type_description* type;
    unsigned char log2_alignment, access;
};

}  // namespace cudalab

extern "C" __attribute__((used, cold)) inline void __ubsan_handle_type_mismatch_v1(
    cudalab::mismatch* found, uintptr_t address) {
    cudalab::fail("%s:%u: " CUDALAB_WHERE ": misaligned address: %s needs a multiple of %u bytes, got %u beyond one",
                  found->where.file, found->where.line, CUDALAB_HERE, found->type->name, 1u << found->log2_alignment,
                  unsigned(address & ((1u << found->log2_alignment) - 1)));
}
