// The workers of a launch: operating system threads, each of which runs one block at a time. A block whose threads all
// wait for another block makes room for it: one more worker starts. If all blocks wait, and none is left that could
// start, the launch cannot end and fails.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

namespace cudalab {

class crowd {
public:
    static constexpr unsigned most = 256;           // workers
    static constexpr unsigned most_threads = 24576;  // of CUDA: each stack takes 2 of the 65530 mappings of a process

    // A worker, which `work` runs with `job`. Returns whether it could be started.
    CUDALAB_UNWATCHED bool start(void* (*work)(void*), void* job) {
        pthread_mutex_lock(&lock);
        const bool could = started < most && !pthread_create(&workers[started], nullptr, work, job);
        if (could) ++started, begin();
        pthread_mutex_unlock(&lock);
        return could;
    }
    CUDALAB_UNWATCHED void join() {
        for (unsigned i = 0; i < number_started(); ++i) pthread_join(workers[i], nullptr);
    }
    CUDALAB_UNWATCHED bool alone() const { return !started; }  // whether the one that begins the launch runs all blocks
    CUDALAB_UNWATCHED void begin() { ++working, agree(); }
    CUDALAB_UNWATCHED void end() {
        pthread_mutex_lock(&lock);
        --working, agree();
        pthread_mutex_unlock(&lock);
    }

    // One per worker: what it knows of the others while its block waits.
    struct member {
        unsigned long long vote = 0, since = 0;  // the turn of its last vote; the turn in which it began to wait
        unsigned rounds = 0;
        timespec start;
    };

    // A round of the block changed something, after rounds that did not.
    CUDALAB_UNWATCHED void changed(member& one) {
        if (!one.rounds) return;
        one.rounds = 0;
        pthread_mutex_lock(&lock);
        --idle, agree();
        pthread_mutex_unlock(&lock);
    }

    // A round of the block changed nothing, as far as is known; `sure`: nothing that its threads wait for. Returns false if
    // no block can continue: each has voted for that twice. A vote of the first time may be older than the last change of
    // another block, if the system has not let the voter run since; the second vote follows rounds that began when all
    // others waited already.
    CUDALAB_UNWATCHED bool waited(member& one, unsigned threads, bool sure) {
        if (!one.rounds++) {
            pthread_mutex_lock(&lock);
            ++idle;
            one.since = turn;
            clock_gettime(CLOCK_MONOTONIC, &one.start);
            pthread_mutex_unlock(&lock);
        }
        if (one.rounds < 16) return sched_yield(), true;
        if (!sure) sched_yield();
        else usleep(one.rounds < 200 ? 20 : 500);
        pthread_mutex_lock(&lock);
        bool stuck = false;
        const bool help = !CUDALAB_SANITIZE && working - idle < wanted && blocks_left(job) && started < most &&
                          (working + 1) * threads <= most_threads;  // sanitized, static shared arrays are one for all
        if (turn != one.since) {
            one.since = turn, one.rounds = 1;
            clock_gettime(CLOCK_MONOTONIC, &one.start);
        } else if (turn == agreed ? one.rounds > 32 : one.rounds > 500 && elapsed(one.start) > (sure ? 1 : 20)) {
            if (one.vote != turn) one.vote = turn, ++votes;
            stuck = votes == working && turn == agreed;
            if (votes == working && !stuck) agree(), agreed = turn;
        }
        pthread_mutex_unlock(&lock);
        if (help) start(work, job);
        return !stuck;
    }

    unsigned wanted = 1;  // workers whose blocks do not wait
    void* job;
    void* (*work)(void*);
    bool (*blocks_left)(const void*);

    CUDALAB_UNWATCHED static double elapsed(timespec from) {
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return double(now.tv_sec - from.tv_sec) + 1e-9 * double(now.tv_nsec - from.tv_nsec);
    }

private:
    // Something is different for all: votes of before do not count.
    void agree() { ++turn, votes = 0; }
    unsigned number_started() {
        pthread_mutex_lock(&lock);
        const unsigned number = started;
        pthread_mutex_unlock(&lock);
        return number;
    }

    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t workers[most];
    unsigned started = 0, working = 0, idle = 0, votes = 0;
    unsigned long long turn = 1, agreed = 0;  // the turn that began when all had voted; only a change ends it
};

}  // namespace cudalab
