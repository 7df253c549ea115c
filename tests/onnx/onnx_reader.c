// onnx_reader.c: see onnx_reader.h. One cursor walks the fields of a message; nested messages are
// spans of the outer one.
#include "onnx_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Protobuf wire types.
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

typedef struct pb_span {
    const uint8_t *data;
    size_t size;
} pb_span;

typedef struct pb_field {
    uint64_t number;
    unsigned wire;
    uint64_t value; // varint and fixed
    pb_span bytes;  // WIRE_BYTES
} pb_field;

static int fail(char error[ONNX_MAX_ERROR], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, ONNX_MAX_ERROR, format, args);
    va_end(args);
    return -1;
}

static int read_varint(pb_span *in, uint64_t *value_out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (in->size == 0) {
            return -1;
        }
        const uint8_t byte = *in->data;
        in->data++;
        in->size--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value_out = value;
            return 0;
        }
    }
    return -1; // more than ten bytes
}

static int take(pb_span *in, uint64_t size, pb_span *taken_out)
{
    if (size > in->size) {
        return -1;
    }
    *taken_out = (pb_span){in->data, (size_t)size};
    in->data += size;
    in->size -= (size_t)size;
    return 0;
}

static int read_fixed(pb_span *in, unsigned size, uint64_t *value_out)
{
    pb_span taken;
    if (take(in, size, &taken) != 0) {
        return -1;
    }
    *value_out = 0;
    for (unsigned i = 0; i < size; i++) {
        *value_out |= (uint64_t)taken.data[i] << (8 * i);
    }
    return 0;
}

// 1: a field was read; 0: the message is over; -1: broken.
static int next_field(pb_span *in, pb_field *field_out)
{
    uint64_t tag;
    if (in->size == 0) {
        return 0;
    }
    if (read_varint(in, &tag) != 0) {
        return -1;
    }
    *field_out = (pb_field){.number = tag >> 3, .wire = (unsigned)(tag & 7)};
    int rc = -1; // groups (3 and 4) are not used by ONNX
    if (field_out->wire == WIRE_VARINT) {
        rc = read_varint(in, &field_out->value);
    } else if (field_out->wire == WIRE_FIXED64) {
        rc = read_fixed(in, 8, &field_out->value);
    } else if (field_out->wire == WIRE_FIXED32) {
        rc = read_fixed(in, 4, &field_out->value);
    } else if (field_out->wire == WIRE_BYTES) {
        uint64_t size;
        rc = read_varint(in, &size);
        rc = rc == 0 ? take(in, size, &field_out->bytes) : rc;
    }
    return rc == 0 ? 1 : -1;
}

static int copy_name(pb_span text, char name[ONNX_MAX_NAME])
{
    if (text.size >= ONNX_MAX_NAME || memchr(text.data, 0, text.size) != NULL) {
        return -1;
    }
    memcpy(name, text.data, text.size);
    name[text.size] = 0;
    return 0;
}

size_t onnx_dtype_bytes(int64_t dtype)
{
    switch (dtype) {
    case ONNX_FLOAT: return 4;
    case ONNX_INT64: return 8;
    case ONNX_BOOL: return 1;
    case ONNX_FLOAT16: return 2;
    default: return 0;
    }
}

// ---------------------------------------------------------------------------------------------
// TensorProto: dims = 1, data_type = 2, name = 8, raw_data = 9

static int add_dim(onnx_tensor *tensor, uint64_t dim)
{
    if (tensor->rank == ONNX_MAX_RANK || dim > INT64_MAX) {
        return -1;
    }
    tensor->dims[tensor->rank++] = (int64_t)dim;
    return 0;
}

// dims is a repeated int64: one field each, or all in one packed field.
static int add_dims(onnx_tensor *tensor, const pb_field *field)
{
    if (field->wire == WIRE_VARINT) {
        return add_dim(tensor, field->value);
    }
    pb_span packed = field->bytes;
    while (field->wire == WIRE_BYTES && packed.size > 0) {
        uint64_t dim;
        if (read_varint(&packed, &dim) != 0 || add_dim(tensor, dim) != 0) {
            return -1;
        }
    }
    return field->wire == WIRE_BYTES ? 0 : -1;
}

static int check_size(onnx_tensor *tensor, char error[ONNX_MAX_ERROR])
{
    const size_t element_bytes = onnx_dtype_bytes(tensor->dtype);
    if (element_bytes == 0) {
        return fail(error, "%s: data type %d is not known", tensor->name, (int)tensor->dtype);
    }
    tensor->count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        if (__builtin_mul_overflow(tensor->count, tensor->dims[i], &tensor->count)) {
            return fail(error, "%s: the dims overflow", tensor->name);
        }
    }
    size_t bytes;
    if (__builtin_mul_overflow((size_t)tensor->count, element_bytes, &bytes) ||
        bytes != tensor->raw_bytes) {
        return fail(error, "%s: %lld elements of %zu bytes, raw_data has %zu bytes", tensor->name,
                    (long long)tensor->count, element_bytes, tensor->raw_bytes);
    }
    return 0;
}

static int tensor_field(const pb_field *field, onnx_tensor *tensor)
{
    switch (field->number) {
    case 1: return add_dims(tensor, field);
    case 2:
        tensor->dtype = (onnx_dtype)(field->value > 1000 ? 0 : field->value);
        return field->wire == WIRE_VARINT ? 0 : -1;
    case 8: return field->wire == WIRE_BYTES ? copy_name(field->bytes, tensor->name) : -1;
    case 9:
        tensor->raw = field->bytes.data;
        tensor->raw_bytes = field->bytes.size;
        return field->wire == WIRE_BYTES ? 0 : -1;
    case 12: return 0;  // doc_string
    default: return -1; // float_data and its like, segments, external data
    }
}

int onnx_parse_tensor(const uint8_t *bytes, size_t size, onnx_tensor *tensor_out,
                      char error[ONNX_MAX_ERROR])
{
    pb_span in = {bytes, size};
    pb_field field;
    int rc;
    memset(tensor_out, 0, sizeof *tensor_out);
    while ((rc = next_field(&in, &field)) == 1) {
        if (tensor_field(&field, tensor_out) != 0) {
            return fail(error, "tensor: field %llu is bad or not known",
                        (unsigned long long)field.number);
        }
    }
    if (rc != 0) {
        return fail(error, "tensor: the message is cut off or broken");
    }
    return check_size(tensor_out, error);
}

// ---------------------------------------------------------------------------------------------
// ModelProto: graph = 7. GraphProto: node = 1. NodeProto: input = 1, output = 2, op_type = 4,
// attribute = 5. AttributeProto: name = 1, f = 2, i = 3, type = 20.

static int set_attribute(onnx_attention_node *node, const char *name, int64_t i, float f)
{
    if (strcmp(name, "scale") == 0) {
        node->has_scale = 1;
        node->scale = f;
        return 0;
    }
    if (strcmp(name, "softcap") == 0) {
        node->softcap = f;
        return 0;
    }
    const struct {
        const char *name;
        int64_t *value;
    } ints[] = {
        {"is_causal", &node->is_causal},
        {"q_num_heads", &node->q_num_heads},
        {"kv_num_heads", &node->kv_num_heads},
        {"qk_matmul_output_mode", &node->qk_matmul_output_mode},
        {"softmax_precision", &node->softmax_precision},
    };
    for (size_t k = 0; k < sizeof ints / sizeof ints[0]; k++) {
        if (strcmp(name, ints[k].name) == 0) {
            *ints[k].value = i;
            return 0;
        }
    }
    return -1;
}

static int parse_attribute(pb_span in, onnx_attention_node *node, char error[ONNX_MAX_ERROR])
{
    char name[ONNX_MAX_NAME] = "";
    int64_t i = 0;
    float f = 0;
    pb_field field;
    int rc;
    while ((rc = next_field(&in, &field)) == 1) {
        if (field.number == 1 && field.wire == WIRE_BYTES) {
            if (copy_name(field.bytes, name) != 0) {
                return fail(error, "attribute: bad name");
            }
        } else if (field.number == 2 && field.wire == WIRE_FIXED32) {
            const uint32_t bits = (uint32_t)field.value;
            memcpy(&f, &bits, sizeof f);
        } else if (field.number == 3 && field.wire == WIRE_VARINT) {
            i = (int64_t)field.value;
        }
    }
    if (rc != 0 || set_attribute(node, name, i, f) != 0) {
        return fail(error, "attribute %s: broken or not known", name);
    }
    return 0;
}

static int add_argument(pb_span text, char names[][ONNX_MAX_NAME], int *count)
{
    if (*count == ONNX_MAX_ARGS || copy_name(text, names[*count]) != 0) {
        return -1;
    }
    (*count)++;
    return 0;
}

static int parse_node(pb_span in, onnx_attention_node *node, char error[ONNX_MAX_ERROR])
{
    char op[ONNX_MAX_NAME] = "";
    pb_field field;
    int rc;
    while ((rc = next_field(&in, &field)) == 1) {
        if (field.wire != WIRE_BYTES) {
            return fail(error, "node: field %llu is bad", (unsigned long long)field.number);
        }
        int bad = 0;
        switch (field.number) {
        case 1: bad = add_argument(field.bytes, node->inputs, &node->input_count); break;
        case 2: bad = add_argument(field.bytes, node->outputs, &node->output_count); break;
        case 4: bad = copy_name(field.bytes, op); break;
        case 5:
            if (parse_attribute(field.bytes, node, error) != 0) {
                return -1;
            }
            break;
        default: break; // name, doc_string, domain
        }
        if (bad != 0) {
            return fail(error, "node: too many arguments or a bad name");
        }
    }
    if (rc != 0 || strcmp(op, "Attention") != 0) {
        return fail(error, "node: broken, or the operator '%s' is not Attention", op);
    }
    return 0;
}

static int parse_graph(pb_span in, onnx_attention_node *node, int *nodes,
                       char error[ONNX_MAX_ERROR])
{
    pb_field field;
    int rc;
    while ((rc = next_field(&in, &field)) == 1) {
        if (field.number == 1 && field.wire == WIRE_BYTES) {
            if (++*nodes > 1) {
                return fail(error, "graph: more than one node");
            }
            if (parse_node(field.bytes, node, error) != 0) {
                return -1;
            }
        }
    }
    return rc == 0 ? 0 : fail(error, "graph: the message is cut off or broken");
}

int onnx_parse_attention_model(const uint8_t *bytes, size_t size, onnx_attention_node *node_out,
                               char error[ONNX_MAX_ERROR])
{
    pb_span in = {bytes, size};
    pb_field field;
    int nodes = 0;
    int rc;
    memset(node_out, 0, sizeof *node_out);
    while ((rc = next_field(&in, &field)) == 1) {
        if (field.number == 7 && field.wire == WIRE_BYTES &&
            parse_graph(field.bytes, node_out, &nodes, error) != 0) {
            return -1;
        }
    }
    if (rc != 0 || nodes != 1) {
        return fail(error, "model: broken, or no graph with one node");
    }
    return 0;
}
