// SPDX-License-Identifier: MIT OR Apache-2.0
// How the programs here check what they call.
#ifndef CHECK_H
#define CHECK_H
#include <metrale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition,                    \
              metrale_last_error());                                                            \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)
#define CUDA(call) CHECK((call) == CUDA_SUCCESS)
#define OK(call) CHECK((call) == METRALE_STATUS_OK)
#define SAYS(text) CHECK(strstr(metrale_last_error(), (text)) != NULL)
#define REFUSED(call, status, text)                                                             \
  do {                                                                                          \
    CHECK((call) == (status));                                                                  \
    SAYS(text);                                                                                 \
  } while (0)
#define NULL_REFUSED(call, name) REFUSED(call, METRALE_STATUS_ARGUMENT, name " is NULL")

static const uint64_t PATIENCE_NS = 60000000000;

static const char PTX[] = ".version 7.0 .target sm_75 .address_size 64\n"
                          ".visible .entry attention(.param .u64 duration_ns) { ret; }\n"
                          ".visible .entry gemm(.param .u64 duration_ns) { ret; }";

#endif
