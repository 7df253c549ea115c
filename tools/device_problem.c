// device_problem.c: see device_problem.h.
#include "device_problem.h"

#include <string.h>

#include "device_memory.h"

static int copy(struct gpu_range *range, const char *what, const void *host, size_t bytes,
                struct io_error *err)
{
    *range = (struct gpu_range){.host = host, .bytes = bytes};
    return device_alloc(bytes, what, &range->device, err) ||
                   device_upload(range->device, host, bytes, err)
               ? -1
               : 0;
}

int device_problem_create(struct device_problem *device, const struct problem *problem,
                          struct io_error *err)
{
    memset(device, 0, sizeof(*device));
    int status = 0;
    for (int i = 0; i < OPERAND_COUNT && !status; i++) {
        const struct io_tensor *t = &problem->tensors[i];
        if (t->data) {
            status = copy(&device->ranges[i], "an operand", t->data, t->bytes, err);
        }
    }
    if (!status && problem->args.in.dropout_state) {
        status = copy(&device->ranges[OPERAND_COUNT], "dropout state", problem->dropout_state,
                      sizeof(problem->dropout_state), err);
    }
    if (status) {
        device_problem_destroy(device);
        return status;
    }
    device->args = problem->args;
    gpu_args_backward(&device->args, device->ranges, OPERAND_COUNT + 1);
    return 0;
}

void device_problem_destroy(struct device_problem *device)
{
    for (int i = 0; i <= OPERAND_COUNT; i++) {
        device_free(device->ranges[i].device);
    }
    memset(device, 0, sizeof(*device));
}

int device_problem_fetch(const struct device_problem *device, struct problem *problem,
                         struct io_error *err)
{
    for (int i = 0; i < OPERAND_COUNT; i++) {
        struct io_tensor *t = &problem->tensors[i];
        if (problem_is_result(i) && t->data &&
            device_download(t->data, device->ranges[i].device, t->bytes, err)) {
            return -1;
        }
    }
    return 0;
}
