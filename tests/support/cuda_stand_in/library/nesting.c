/* Whether the stand-in runtime calls the driver. */
#include "driver_calls.h"

#include <stdlib.h>
#include <string.h>

const struct driver_calls *stand_in_driver;

__attribute__((constructor)) static void begin(void)
{
    const char *wanted = getenv("CUDA_STAND_IN_NESTED");
    if (wanted && strcmp(wanted, "1") == 0)
        stand_in_driver = load_driver();
}
