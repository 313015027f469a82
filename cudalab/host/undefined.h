// The handlers that compiled checks for undefined behaviour (-fsanitize=...) call. They replace libubsan, which is not
// linked: a launch fails with the line, the block and the thread, and the process continues.
//
// Alignment is always checked: on a GPU a misaligned access ends the launch ("misaligned address"). Here it would pass
// undetected, or kill the process where the compiler chose an instruction that requires alignment.
#pragma once
#if CUDALAB_RUNTIME

namespace cudalab {

// The arguments that the compiler passes, as libubsan's interface defines them (ubsan_handlers.h).
struct source_location {
    const char* file;
    uint32_t line, column;
};
struct type_description {
    uint16_t kind, info;  // kind 0: an integer; info: log2 of its bits, and in the lowest bit whether it is signed
    char name[1];         // in quotes
};
struct mismatch {
    source_location where;
    const type_description* type;
    unsigned char log2_alignment, access;
};
struct in_type {
    source_location where;
    const type_description* type;
};
struct in_two_types {
    source_location where;
    const type_description *left, *right;
};
struct in_no_type {
    source_location where;
};

// An operand as text. Integers of up to 64 bits are passed by value, wider ones through a pointer.
struct operand {
    char text[32];
    operand(const type_description* type, uintptr_t value) {
        const unsigned bits = 1u << (type->info >> 1);
        if (type->kind != 0 || bits > 64) snprintf(text, sizeof text, "a value");
        else if (type->info & 1) snprintf(text, sizeof text, "%lld", (long long)(value << (64 - bits)) >> (64 - bits));
        else snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    }
};

#define CUDALAB_UNDEFINED(found, format, ...) \
    cudalab::fail("%s:%u: " CUDALAB_WHERE ": " format, (found)->where.file, (found)->where.line, CUDALAB_HERE, ##__VA_ARGS__)

}  // namespace cudalab

#define CUDALAB_HANDLER extern "C" [[noreturn]] __attribute__((used, cold)) void

CUDALAB_HANDLER __ubsan_handle_type_mismatch_v1_abort(cudalab::mismatch* found, uintptr_t address) {
    if (!address) CUDALAB_UNDEFINED(found, "access through a null pointer to %s", found->type->name);
    CUDALAB_UNDEFINED(found, "misaligned address: %s needs an alignment of %u bytes, and the address is %u bytes off",
                      found->type->name, 1u << found->log2_alignment,
                      unsigned(address & ((1u << found->log2_alignment) - 1)));
}

// ---- of a sanitized build only --------------------------------------------------------------------------------------
#define CUDALAB_OVERFLOW(what, sign)                                                                                  \
    CUDALAB_HANDLER __ubsan_handle_##what##_overflow_abort(cudalab::in_type* found, uintptr_t left, uintptr_t right) {      \
        CUDALAB_UNDEFINED(found, "signed integer overflow: %s " sign " %s does not fit %s",                           \
                          cudalab::operand(found->type, left).text, cudalab::operand(found->type, right).text,        \
                          found->type->name);                                                                         \
    }
CUDALAB_OVERFLOW(add, "+")
CUDALAB_OVERFLOW(sub, "-")
CUDALAB_OVERFLOW(mul, "*")
#undef CUDALAB_OVERFLOW

CUDALAB_HANDLER __ubsan_handle_negate_overflow_abort(cudalab::in_type* found, uintptr_t value) {
    CUDALAB_UNDEFINED(found, "signed integer overflow: -(%s) does not fit %s",
                      cudalab::operand(found->type, value).text, found->type->name);
}
CUDALAB_HANDLER __ubsan_handle_divrem_overflow_abort(cudalab::in_type* found, uintptr_t left, uintptr_t right) {
    CUDALAB_UNDEFINED(found, "division of %s by %s", cudalab::operand(found->type, left).text,
                      cudalab::operand(found->type, right).text);
}
CUDALAB_HANDLER __ubsan_handle_shift_out_of_bounds_abort(cudalab::in_two_types* found, uintptr_t left, uintptr_t right) {
    CUDALAB_UNDEFINED(found, "shift of %s, which is %s, by %s bits", cudalab::operand(found->left, left).text,
                      found->left->name, cudalab::operand(found->right, right).text);
}
CUDALAB_HANDLER __ubsan_handle_out_of_bounds_abort(cudalab::in_two_types* found, uintptr_t index) {
    CUDALAB_UNDEFINED(found, "index %s is out of bounds for %s", cudalab::operand(found->right, index).text,
                      found->left->name);
}
CUDALAB_HANDLER __ubsan_handle_load_invalid_value_abort(cudalab::in_type* found, uintptr_t) {
    CUDALAB_UNDEFINED(found, "a value was read that is not valid for %s", found->type->name);
}
CUDALAB_HANDLER __ubsan_handle_vla_bound_not_positive_abort(cudalab::in_type* found, uintptr_t bound) {
    CUDALAB_UNDEFINED(found, "an array of %s elements", cudalab::operand(found->type, bound).text);
}
CUDALAB_HANDLER __ubsan_handle_builtin_unreachable(cudalab::in_no_type* found) {
    CUDALAB_UNDEFINED(found, "__builtin_unreachable() was reached");
}
CUDALAB_HANDLER __ubsan_handle_missing_return(cudalab::in_no_type* found) {
    CUDALAB_UNDEFINED(found, "the end of a function that returns a value was reached without a return");
}
#undef CUDALAB_HANDLER
#undef CUDALAB_UNDEFINED
#endif
