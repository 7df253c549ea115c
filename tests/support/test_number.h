// The small floating types, written from their definitions in double arithmetic: a second statement
// beside the library's own conversions, which it therefore also checks.
#ifndef ATTN_TEST_NUMBER_H
#define ATTN_TEST_NUMBER_H

#include "attn.h"

// The nearest value of the dtype, ties to even; beyond its range infinity, or NaN for e4m3.
double test_number_round(attn_dtype_t dtype, double value);
// Half the distance between 1 and the next number: the largest relative error of one rounding.
double test_number_unit(attn_dtype_t dtype);
// Element `index` of an array of the dtype. Any alignment.
double test_number_get(attn_dtype_t dtype, const void *data, int64_t index);
void test_number_set(attn_dtype_t dtype, void *data, int64_t index, double value);

#endif
