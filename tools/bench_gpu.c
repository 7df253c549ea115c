// bench_gpu.c: see bench_gpu.h.
#include "bench_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_gemm.h"
#include "device_memory.h"
#include "power_meter.h"

enum {
    L2_FACTOR = 3,    // copies hold at least this many times L2
    FLUSH_FACTOR = 4, // and so does the buffer that is filled before cold runs
    COPIES_MIN = 2,
    COPIES_MAX = 64,
    GEMM_RUNS = 20, // about 30 ms
    COPY_RUNS = 10,
};
#define COPY_BYTES ((size_t)1 << 30)
#define BATCH_SECONDS 0.1

struct bench_gpu {
    attn_gpu_info_t info;
    gpu_event begin, end;
    void *flush;
    size_t flush_bytes;
    bool has_gemm;
};

static int open_all(int ordinal, struct bench_gpu *gpu, struct io_error *err)
{
    gpu->info.struct_size = sizeof(gpu->info);
    if (attn_gpu_query(ordinal, &gpu->info)) {
        return io_fail(err, "--backend cuda: %s", attn_last_error());
    }
    if (device_open(ordinal, err)) {
        return -1;
    }
    power_meter_open(ordinal);
    DEVICE_CHECK("cuEventCreate", event_create(&gpu->begin, 0));
    DEVICE_CHECK("cuEventCreate", event_create(&gpu->end, 0));
    gpu->flush_bytes = (size_t)gpu->info.l2_bytes * FLUSH_FACTOR;
    return device_alloc(gpu->flush_bytes, "a buffer larger than L2", &gpu->flush, err);
}

int bench_gpu_open(int ordinal, bool wants_gemm, struct bench_gpu **gpu_out, struct io_error *err)
{
    struct bench_gpu *gpu = calloc(1, sizeof(*gpu));
    *gpu_out = gpu;
    if (!gpu) {
        return io_fail(err, "out of memory");
    }
    const int status = open_all(ordinal, gpu, err);
    return status || !wants_gemm ? status : bench_gemm_open(&gpu->has_gemm, err);
}

void bench_gpu_close(struct bench_gpu *gpu)
{
    if (!gpu) {
        return;
    }
    bench_gemm_close();
    device_free(gpu->flush);
    if (gpu->begin) {
        (void)device_driver()->event_destroy(gpu->begin);
    }
    if (gpu->end) {
        (void)device_driver()->event_destroy(gpu->end);
    }
    free(gpu);
}

const char *bench_gpu_name(const struct bench_gpu *gpu)
{
    return gpu->info.name;
}

// ------------------------------------------------------------------------------------------------
// Events

static int begin(const struct bench_gpu *gpu, struct io_error *err)
{
    DEVICE_CHECK("cuEventRecord", event_record(gpu->begin, NULL));
    return 0;
}

static int mark_end(const struct bench_gpu *gpu, struct io_error *err)
{
    DEVICE_CHECK("cuEventRecord", event_record(gpu->end, NULL));
    return 0;
}

// Waits for the end. Seconds between the two.
static int elapsed(const struct bench_gpu *gpu, double *seconds_out, struct io_error *err)
{
    float ms = 0.0f;
    DEVICE_CHECK("cuEventSynchronize", event_wait(gpu->end));
    DEVICE_CHECK("cuEventElapsedTime", event_elapsed(&ms, gpu->begin, gpu->end));
    *seconds_out = 1e-3 * (double)ms;
    return 0;
}

int bench_gpu_copy_rate(const struct bench_gpu *gpu, double *gbs_out, struct io_error *err)
{
    void *allocated = NULL;
    double best = 0.0;
    int status = device_alloc(2 * COPY_BYTES, "a copy", &allocated, err);
    char *const memory = allocated;
    for (int i = 0; i < COPY_RUNS && !status; i++) {
        double seconds = 0.0;
        status = begin(gpu, err) || device_copy(memory + COPY_BYTES, memory, COPY_BYTES, err) ||
                         mark_end(gpu, err) || elapsed(gpu, &seconds, err)
                     ? -1
                     : 0;
        const double rate = 2.0 * (double)COPY_BYTES / seconds * 1e-9;
        best = rate > best ? rate : best;
    }
    device_free(allocated);
    *gbs_out = best;
    return status;
}

// ------------------------------------------------------------------------------------------------
// Copies of the operands

struct rotation {
    const struct bench_gpu *gpu;
    struct launch *launch;
    struct device_problem copies[COPIES_MAX];
    int n, next;
};

static size_t operand_bytes(const struct problem *problem)
{
    size_t bytes = 1;
    for (int i = 0; i < OPERAND_COUNT; i++) {
        bytes += problem->tensors[i].data ? problem->tensors[i].bytes : 0;
    }
    return bytes;
}

static int rotation_create(struct rotation *rotation, const struct problem *problem,
                           struct io_error *err)
{
    const size_t wanted = (size_t)rotation->gpu->info.l2_bytes * L2_FACTOR;
    const size_t n = wanted / operand_bytes(problem) + 1;
    const int count = n < COPIES_MIN ? COPIES_MIN : n > COPIES_MAX ? COPIES_MAX : (int)n;
    int status = 0;
    for (; rotation->n < count && !status; rotation->n += !status) {
        status = device_problem_create(&rotation->copies[rotation->n], problem, err);
    }
    return status;
}

static void rotation_destroy(struct rotation *rotation)
{
    for (int i = 0; i < rotation->n; i++) {
        device_problem_destroy(&rotation->copies[i]);
    }
}

static int start_next(struct rotation *rotation, struct io_error *err)
{
    rotation->launch->args = rotation->copies[rotation->next].args;
    rotation->next = (rotation->next + 1) % rotation->n;
    return launch_start(rotation->launch, err);
}

// ------------------------------------------------------------------------------------------------
// Protocols

static void pause_seconds(double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)(fmod(seconds, 1.0) * 1e9)};
    (void)nanosleep(&time, NULL);
}

static int cold_sample(struct rotation *rotation, double *seconds_out, struct io_error *err)
{
    const struct bench_gpu *gpu = rotation->gpu;
    for (int i = 0; i < 2; i++) {
        DEVICE_CHECK("cuMemsetD8Async",
                     fill_async((gpu_pointer)(uintptr_t)gpu->flush, 0, gpu->flush_bytes, NULL));
    }
    return begin(gpu, err) || start_next(rotation, err) || mark_end(gpu, err) ||
                   elapsed(gpu, seconds_out, err)
               ? -1
               : 0;
}

static int measure_cold(struct rotation *rotation, const struct bench_protocol *protocol,
                        double *samples, size_t *n_out, struct io_error *err)
{
    pause_seconds(protocol->idle_seconds);
    double seconds = 0.0;
    for (int64_t i = 0; i < protocol->warmup; i++) {
        if (cold_sample(rotation, &seconds, err)) {
            return -1;
        }
    }
    const double start = launch_clock();
    size_t n = 0;
    while (n < (size_t)protocol->samples &&
           (n < BENCH_MIN_SAMPLES || launch_clock() - start < protocol->max_seconds)) {
        if (cold_sample(rotation, &samples[n++], err)) {
            return -1;
        }
    }
    *n_out = n;
    return 0;
}

struct batch {
    double seconds, clock_mhz;
};

// Runs back to back, or so many products if rotation is NULL. The clock is that of the middle of
// what is expected to take so many seconds.
static int run_batch(const struct bench_gpu *gpu, struct rotation *rotation, int64_t runs,
                     double expected_seconds, struct batch *out, struct io_error *err)
{
    int status = begin(gpu, err);
    for (int64_t i = 0; i < runs && !status; i++) {
        status = rotation ? start_next(rotation, err) : bench_gemm_start(err);
    }
    status = status ? status : mark_end(gpu, err);
    // The host has handed over everything long before the GPU is done.
    pause_seconds(expected_seconds / 2);
    out->clock_mhz = power_meter_clock_mhz();
    return status ? status : elapsed(gpu, &out->seconds, err);
}

// Runs in a batch of BATCH_SECONDS, and the energy of one. Found while the GPU is heated: the meter
// counts in steps of up to 0.1 s, so only a second says something.
static int heat(struct rotation *rotation, double seconds, int64_t *runs_out, double *joules_out,
                struct io_error *err)
{
    const double joules = power_meter_joules();
    const double until = launch_clock() + seconds;
    struct batch batch;
    double expected = 0.0;
    int64_t total = 0;
    *runs_out = 2;
    do {
        if (run_batch(rotation->gpu, rotation, *runs_out, expected, &batch, err)) {
            return -1;
        }
        total += *runs_out;
        expected = BATCH_SECONDS;
        const double run = batch.seconds / (double)*runs_out;
        const double wanted = BATCH_SECONDS / (run > 1e-6 ? run : 1e-6);
        *runs_out = wanted > 2.0 ? (int64_t)wanted : 2;
    } while (launch_clock() < until);
    *joules_out = (power_meter_joules() - joules) / (double)total;
    return 0;
}

static int measure_sustained(struct rotation *rotation, const struct bench_protocol *protocol,
                             struct bench_result *result, struct io_error *err)
{
    const struct bench_gpu *gpu = rotation->gpu;
    double samples[BENCH_MAX_SAMPLES];
    double clocks[BENCH_MAX_SAMPLES];
    double products[BENCH_MAX_SAMPLES];
    int64_t runs;
    if (heat(rotation, protocol->heat_seconds, &runs, &result->joules, err)) {
        return -1;
    }
    const size_t n = (size_t)protocol->rounds;
    for (size_t i = 0; i < n; i++) {
        struct batch batch;
        if (run_batch(gpu, rotation, runs, BATCH_SECONDS, &batch, err)) {
            return -1;
        }
        samples[i] = batch.seconds / (double)runs;
        clocks[i] = batch.clock_mhz;
        if (gpu->has_gemm && run_batch(gpu, NULL, GEMM_RUNS, 0.0, &batch, err)) {
            return -1;
        }
        products[i] = gpu->has_gemm ? BENCH_GEMM_FLOPS * GEMM_RUNS / batch.seconds * 1e-9 : NAN;
    }
    result->clock_mhz = bench_summarise(clocks, n).median;
    result->gemm_gflops = bench_summarise(products, n).median;
    return bench_result_add_sustained(result, samples, n, err);
}

int bench_gpu_measure(const struct bench_gpu *gpu, struct launch *launch,
                      const struct problem *problem, const struct bench_protocol *protocol,
                      int round, struct bench_result *result, struct io_error *err)
{
    double samples[BENCH_MAX_SAMPLES];
    size_t n = 0;
    struct rotation *rotation = calloc(1, sizeof(*rotation));
    if (!rotation) {
        return io_fail(err, "out of memory");
    }
    rotation->gpu = gpu;
    rotation->launch = launch;
    int status = launch_load_workspace(launch, err);
    status = status ? status : rotation_create(rotation, problem, err);
    status = status ? status : measure_cold(rotation, protocol, samples, &n, err);
    status = status ? status : bench_result_add(result, round, samples, n, err);
    status = status ? status : measure_sustained(rotation, protocol, result, err);
    rotation_destroy(rotation);
    free(rotation);
    return status;
}
