// cmd_random.c: attn random, a tensor to try the other commands with.
#include <stdio.h>
#include <string.h>

#include "array_load.h"
#include "command.h"
#include "io/tensor.h"
#include "random_fill.h"
#include "results.h"

struct random_options {
    const char *out, *shape, *values;
    int dtype;
    double sigma, ones;
    uint64_t seed;
};

#define FIELD(member) offsetof(struct random_options, member)

static const char dtype_choices[] =
    "f32 f16 bf16 f8e4m3 f8e5m2 f64 i64 i32 i16 i8 u64 u32 u16 u8 bool";

static const struct option random_table[] = {
    {"out", 'o', OPTION_TEXT, FIELD(out), "FILE[:NAME]", 0, 0, NULL,
     "write here: .npy, or a tensor (default name x) of a new .safetensors file"},
    {"shape", 0, OPTION_TEXT, FIELD(shape), "N,N,...", 0, 0, NULL,
     "the dims, the last the fastest"},
    {"values", 0, OPTION_TEXT, FIELD(values), "NUMBERS", 0, 0, NULL,
     "these numbers instead of random ones: 1,2,3 or rows 1,2;3,4. With --shape they are repeated"},
    {"dtype", 0, OPTION_CHOICE, FIELD(dtype), "TYPE", 0, 0, dtype_choices,
     "f32 (the default), f16, bf16, f8e4m3, f8e5m2, f64, bool, i or u with 8, 16, 32, 64"},
    {"sigma", 0, OPTION_NUMBER, FIELD(sigma), "X", 0, 0, NULL,
     "standard deviation of floats; default 1"},
    {"ones", 0, OPTION_NUMBER, FIELD(ones), "P", 0, 1, NULL,
     "share of ones among integers, the rest is 0; default 0.5"},
    {"seed", 0, OPTION_U64, FIELD(seed), "N", 0, 0, NULL, "another seed gives other numbers"},
};

static const enum io_dtype dtypes[] = {IO_F32, IO_F16, IO_BF16, IO_F8E4M3, IO_F8E5M2,
                                       IO_F64, IO_I64, IO_I32,  IO_I16,    IO_I8,
                                       IO_U64, IO_U32, IO_U16,  IO_U8,     IO_BOOL};

// Reads "N,N,..." into shape.
static int parse_shape(const char *text, int *ndim_out, int64_t shape[IO_MAX_DIMS],
                       struct io_error *err)
{
    struct io_tensor dims;
    if (array_parse_numbers(text, "--shape", &dims, err)) {
        return -1;
    }
    int status = 0;
    if (dims.ndim != 1 || dims.count > IO_MAX_DIMS) {
        status = io_fail(err, "--shape: '%s', expected 1 to %d numbers", text, IO_MAX_DIMS);
    }
    for (int64_t i = 0; i < dims.count && !status; i++) {
        const double dim = io_tensor_get(&dims, i);
        if (!(dim >= 0 && dim < 9e15) || dim != (double)(int64_t)dim) {
            status = io_fail(err, "--shape: '%s', expected whole numbers >= 0", text);
        } else {
            shape[i] = (int64_t)dim;
        }
    }
    *ndim_out = (int)dims.count;
    io_tensor_clear(&dims);
    return status;
}

// Fills out with the values, again and again. Floats round them; integers must hold them.
static int repeat(const struct io_tensor *values, struct io_tensor *out, struct io_error *err)
{
    const bool rounds = array_is_float(out->dtype);
    for (int64_t i = 0; i < out->count; i++) {
        const double value = io_tensor_get(values, i % values->count);
        io_tensor_set(out, i, value);
        if (!rounds && io_tensor_get(out, i) != value) {
            return io_fail(err, "--values: %.17g is no %s", value, io_dtype_name(out->dtype));
        }
    }
    return 0;
}

static int make(const struct random_options *options, struct io_tensor *out, struct io_error *err)
{
    struct io_tensor values = {0};
    int64_t shape[IO_MAX_DIMS] = {0};
    int ndim = 0;
    int status = 0;
    if (options->values) {
        status = array_parse_numbers(options->values, "--values", &values, err);
        ndim = values.ndim;
        memcpy(shape, values.shape, sizeof(shape));
    }
    if (!status && options->shape) {
        status = parse_shape(options->shape, &ndim, shape, err);
    }
    if (!status) {
        status = io_tensor_init(out, "x", dtypes[options->dtype], ndim, shape, err);
    }
    if (!status && options->values) {
        status = repeat(&values, out, err);
    } else if (!status) {
        random_fill(out, options->seed, "x", options->sigma, options->ones);
    }
    io_tensor_clear(&values);
    return status;
}

int cmd_random(int argc, char **argv)
{
    struct random_options options = {.sigma = 1.0, .ones = 0.5, .seed = 1};
    struct command_line line = {
        .usage = "attn random --shape N,N,... -o FILE [options]",
        .description =
            "Writes a tensor of normal random numbers (0 or 1 for integer types), or of\n"
            "given numbers. The same options give the same file.",
        .examples = "  attn random --shape 128,8,64 -o q.npy                 (S, H, D)\n"
                    "  attn random --shape 2,128,8,64 --dtype bf16 --seed 2 -o k.npy\n"
                    "  attn random --shape 128,128 --dtype bool --ones 0.9 -o mask.npy\n"
                    "  attn random --values 0,100,250 --dtype i32 -o cu_seqlens.npy\n",
    };
    options_add_group(&line, "Options", random_table, OPTIONS_COUNT(random_table), &options);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    struct io_tensor tensor = {0};
    const struct result result = {options.out, &tensor, "x"};
    int status = 0;
    if (!options.out || (!options.shape && !options.values)) {
        status = io_fail(&err, "give --out FILE, and --shape or --values");
    }
    status = status ? status : results_check(&result, 1, &err);
    status = status ? status : make(&options, &tensor, &err);
    status = status ? status : results_write(&result, 1, &err);
    io_tensor_clear(&tensor);
    return status ? command_fail("random", &err) : command_end("random", COMMAND_OK);
}
