/* The functions of libcuda.so.1, looked up by name at run time. */
#pragma once
#include "../cuda.h"

#define DRIVER_POINTER(name, parameters) CUresult(*name) parameters;

struct driver_calls {
    CUDA_DRIVER(DRIVER_POINTER)
};

/* NULL unless the runtime is to call the driver. */
extern const struct driver_calls *stand_in_driver;

/* load_driver: the driver's functions; ends the process where there is no driver. */
const struct driver_calls *load_driver(void);
