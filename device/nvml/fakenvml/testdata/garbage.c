/*
 * A libnvidia-ml.so.1 that answers with noise: statuses, counts, texts without an
 * end, lists of nonsense. The noise follows from SEED, so that a run can be had
 * again. It never writes more than the interface says that it may.
 */
#include <stdint.h>
#include <string.h>

#ifndef SEED
#define SEED 1
#endif

static uint64_t state = SEED * 0x9e3779b97f4a7c15u + 1;
static uint64_t noise(void) {
  state ^= state << 13; state ^= state >> 7; state ^= state << 17;
  return state;
}
/* Mostly success, so that what is behind it is read too. */
static int status(void) { return noise() % 8 ? 0 : (int)(noise() % 40) - 5; }
static uint64_t number(void) {
  switch (noise() % 6) {
  case 0: return 0;
  case 1: return noise() % 100;
  case 2: return 0xffffffffffffffffu;
  case 3: return 0x7ffffffffffffff0u + noise() % 4;
  case 4: return noise() % (80ull << 30);
  }
  return noise();
}
static void fill(void *into, unsigned n) {
  for (unsigned i = 0; i < n; i++) ((unsigned char *)into)[i] = noise() % 4 ? 'a' + noise() % 26 : (unsigned char)noise();
}

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return status(); }
int nvmlSystemGetDriverVersion(char *t, unsigned n) { fill(t, n); return status(); }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = (int)number(); return status(); }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1 + noise() % 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { (void)i; *d = (void *)(intptr_t)number(); return status(); }
int nvmlDeviceGetName(void *d, char *t, unsigned n) { (void)d; fill(t, n); return status(); }
int nvmlDeviceGetUUID(void *d, char *t, unsigned n) { (void)d; fill(t, n); return status(); }
int nvmlDeviceGetPciInfo_v3(void *d, void *info) { (void)d; fill(info, 68); return status(); }
int nvmlDeviceGetMemoryInfo(void *d, uint64_t *m) { (void)d; for (int i = 0; i < 3; i++) m[i] = number(); return status(); }
int nvmlDeviceGetMemoryInfo_v2(void *d, uint64_t *m) { (void)d; for (int i = 1; i < 5; i++) m[i] = number(); return status(); }
static int list(unsigned *n, char *l) {
  fill(l, *n * 24);
  *n = noise() % 3 ? noise() % *n : (unsigned)number();
  return noise() % 4 ? 0 : 7;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, char *l) { (void)d; return list(n, l); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, char *l) { (void)d; return list(n, l); }
int nvmlDeviceGetCudaComputeCapability(void *d, int *a, int *b) { (void)d; *a = (int)number(); *b = (int)number(); return status(); }
int nvmlDeviceGetComputeMode(void *d, unsigned *v) { (void)d; *v = (unsigned)number(); return status(); }
int nvmlDeviceGetDriverModel_v2(void *d, unsigned *a, unsigned *b) { (void)d; *a = (unsigned)number(); *b = 0; return status(); }
int nvmlDeviceGetVirtualizationMode(void *d, unsigned *v) { (void)d; *v = (unsigned)number(); return status(); }
int nvmlDeviceGetMigMode(void *d, unsigned *a, unsigned *b) { (void)d; *a = noise() % 2; *b = 0; return status(); }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { (void)d; *n = (unsigned)number(); return status(); }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **m) { (void)d; (void)i; *m = (void *)(intptr_t)number(); return status(); }
int nvmlDeviceGetGpuInstanceId(void *d, unsigned *v) { (void)d; *v = (unsigned)number(); return status(); }
int nvmlDeviceGetComputeInstanceId(void *d, unsigned *v) { (void)d; *v = (unsigned)number(); return status(); }
