// A kernel as Python calls it: the functions of each entry that are found in the shared object, by its name.
#pragma once

namespace cudalab {

// Runs a launch to its end (launch.h). Returns whether it failed; cudalab_error() says why.
int run_launch(uint3 grid, uint3 block, size_t shared, void** arguments, kernel_body body, unsigned workers, bool contends);

// Size and kind of a parameter, against which Python checks arguments.
enum parameter_kind : unsigned { other, pointer, integer, floating };
template <class T> constexpr unsigned kind_of() {
    return std::is_pointer<T>::value          ? pointer
           : std::is_integral<T>::value       ? integer
           : std::is_floating_point<T>::value ? floating
                                              : other;
}

template <auto kernel> struct entry;
template <class... A, void (*kernel)(A...)> struct entry<kernel> {
    // workers > 0: arguments[i] points at the i-th argument, as for cuLaunchKernel.
    // workers < 0: `arguments` is one buffer with all of them, each at its natural alignment, as PyCUDA passes them to
    //              cuLaunchKernel (CU_LAUNCH_PARAM_BUFFER_POINTER).
    static int run(uint3 grid, uint3 block, size_t shared, void** arguments, int workers) {
        void* unpacked[sizeof...(A) + 1];
        if (workers < 0) {
            char* const buffer = reinterpret_cast<char*>(arguments);
            size_t offset = 0, i = 0;
            ((offset = (offset + alignof(A) - 1) / alignof(A) * alignof(A), unpacked[i++] = buffer + offset,
              offset += sizeof(A)), ...);
            arguments = unpacked;
            workers = -workers;
        }
        return run_launch(grid, block, shared, arguments, body_of<kernel>, unsigned(workers), CUDALAB_CONTENDS);
    }

    // {number of parameters, size and kind of the first, size and kind of the second, ...}
    static const unsigned* parameters() {
        static unsigned table[1 + 2 * sizeof...(A)] = {unsigned(sizeof...(A))};
        unsigned i = 0;
        ((table[++i] = unsigned(sizeof(A)), table[++i] = kind_of<A>()), ...);
        return table;
    }
};

}  // namespace cudalab

// A `__constant__` variable that Python sets: its address, its bytes, and bytes and kind of an element.
#define CUDALAB_CONSTANT(number, ...)                                                                              \
    CUDALAB_EXTERN const size_t* cudalab_constant_##number() {                                                     \
        using element = std::remove_cv_t<std::remove_all_extents_t<std::remove_reference_t<decltype((__VA_ARGS__))>>>; \
        static const size_t table[4] = {size_t(&__VA_ARGS__), sizeof(__VA_ARGS__), sizeof(element),                \
                                        cudalab::kind_of<element>()};                                              \
        return table;                                                                                              \
    }

// What an entry's __cluster_dims__ holds.
#define CUDALAB_CLUSTER(name, ...)                                                  \
    CUDALAB_EXTERN const unsigned* cudalab_cluster_##name() {                       \
        static const unsigned size[4] = {__VA_ARGS__};                              \
        return size;                                                                \
    }

// An entry under the name by which Python asks for it: a plain name, or at_0, at_1, ... for those of C++. The rest is an
// expression with its address.
#define CUDALAB_EXPORT(name, ...)                                                                           \
    CUDALAB_EXTERN int cudalab_run_##name(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,  \
                                          unsigned bz, size_t shared, void** arguments, int workers) {      \
        return cudalab::entry<__VA_ARGS__>::run({gx, gy, gz}, {bx, by, bz}, shared, arguments, workers);    \
    }                                                                                                       \
    CUDALAB_EXTERN const unsigned* cudalab_parameters_##name() {                                            \
        return cudalab::entry<__VA_ARGS__>::parameters();                                                   \
    }
