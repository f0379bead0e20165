/*
 * A libnvidia-ml.so.1 for tests. What it says stands in a text file beside it,
 * "scenario": one line a thing, the first word its kind, and key=value words.
 *
 *   system  driver=580.95.05 cuda=13000 init=0 count=0 hang=0 crash=0
 *   card    name=NVIDIA_H100 uuid=GPU-… bus=00000000:01:00.0 total= reserved= free= used=
 *           memory=0 handle=0 cc=9.0 mode=0 model=-1 virtual=0 mig=-1 hang=0
 *   instance  (of the card above) name= uuid= gi= ci= total= reserved= free= used= memory=0
 *   process   (of the card or instance above) pid= used= kind=compute|graphics|mps
 *
 * An underscore in a name is a space. Statuses are those of nvml.h; a key that is
 * missing has the value shown, or 0. Built with -DOLD it lacks what drivers
 * before R510 lack; with -DSTRIDE=32 its lists of processes are those of R530.
 *
 * Written from the public reference of the interface:
 * https://docs.nvidia.com/deploy/nvml-api/
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef STRIDE
#define STRIDE 24
#endif

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, VERSION_MISMATCH = 25 };

#define MOST 64
struct thing { char line[1024]; int card, instance, owner; };
static struct thing systems, things[MOST], processes[MOST];
static int n_things, n_processes;

static char *word(const struct thing *t, const char *key, char *into, size_t size, const char *missing) {
  char pattern[64];
  snprintf(pattern, sizeof pattern, " %s=", key);
  const char *at = strstr(t->line, pattern);
  snprintf(into, size, "%s", missing);
  if (at) {
    at += strlen(pattern);
    size_t n = strcspn(at, " \n");
    if (n >= size) n = size - 1;
    memcpy(into, at, n);
    into[n] = 0;
  }
  for (char *c = into; *c; c++)
    if (*c == '_') *c = ' ';
  return into;
}

static uint64_t number(const struct thing *t, const char *key, uint64_t missing) {
  char text[64];
  word(t, key, text, sizeof text, "");
  return *text ? strtoull(text, NULL, 0) : missing;
}

static void load(void) {
  Dl_info info;
  char path[4096];
  n_things = n_processes = 0;
  snprintf(systems.line, sizeof systems.line, "system ");
  if (!dladdr((void *)load, &info)) return;
  snprintf(path, sizeof path, "%s", info.dli_fname);
  char *slash = strrchr(path, '/');
  snprintf(slash ? slash + 1 : path, 16, "scenario");
  FILE *f = fopen(path, "r");
  if (!f) return;
  char line[1000];
  int card = -1, instance = -1;
  while (fgets(line, sizeof line, f)) {
    if (!strncmp(line, "system", 6)) snprintf(systems.line, sizeof systems.line, "%s", line);
    if (!strncmp(line, "card", 4) && n_things < MOST) {
      struct thing *t = &things[n_things++];
      snprintf(t->line, sizeof t->line, "%s", line);
      t->card = ++card; t->instance = instance = -1;
    }
    if (!strncmp(line, "instance", 8) && n_things < MOST) {
      struct thing *t = &things[n_things++];
      snprintf(t->line, sizeof t->line, "%s", line);
      t->card = card; t->instance = ++instance;
    }
    if (!strncmp(line, "process", 7) && n_processes < MOST) {
      struct thing *t = &processes[n_processes++];
      snprintf(t->line, sizeof t->line, "%s", line);
      t->owner = n_things - 1;
    }
  }
  fclose(f);
}

static struct thing *of(void *device) {
  intptr_t i = (intptr_t)device - 1;
  return i >= 0 && i < n_things ? &things[i] : NULL;
}

static int copy(char *into, unsigned size, const char *text) {
  if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
  strcpy(into, text);
  return SUCCESS;
}

int nvmlInit_v2(void) {
  load();
  sleep(number(&systems, "hang", 0));
  if (number(&systems, "crash", 0)) *(volatile int *)0 = 0;
  return number(&systems, "init", 0);
}
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
  char version[256];
  return copy(text, size, word(&systems, "driver", version, sizeof version, "580.95.05"));
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = number(&systems, "cuda", 13000); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *n) {
  *n = number(&systems, "claims", 0);
  for (int i = 0; !number(&systems, "claims", 0) && i < n_things; i++) *n += things[i].instance < 0;
  return number(&systems, "count", 0);
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  for (int i = 0; i < n_things; i++)
    if (things[i].card == (int)index && things[i].instance < 0) {
      *device = (void *)(intptr_t)(i + 1);
      return number(&things[i], "handle", 0);
    }
  return INVALID_ARGUMENT;
}
int nvmlDeviceGetName(void *device, char *text, unsigned size) {
  char name[256];
  struct thing *t = of(device);
  return t ? copy(text, size, word(t, "name", name, sizeof name, "NVIDIA H100")) : INVALID_ARGUMENT;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
  char uuid[256];
  struct thing *t = of(device);
  return t ? copy(text, size, word(t, "uuid", uuid, sizeof uuid, "GPU-0")) : INVALID_ARGUMENT;
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *info) {
  char id[32];
  struct thing *t = of(device);
  if (!t) return INVALID_ARGUMENT;
  strcpy(info->bus_id, word(t, "bus", id, sizeof id, "00000000:01:00.0"));
  return SUCCESS;
}
struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *device, struct memory *m) {
  struct thing *t = of(device);
  if (!t) return INVALID_ARGUMENT;
  m->total = number(t, "total", 0); m->free = number(t, "free", 0);
  m->used = number(t, "used", 0) + number(t, "reserved", 0);
  return number(t, "memory", 0);
}
#ifndef OLD
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *m) {
  struct thing *t = of(device);
  if (!t) return INVALID_ARGUMENT;
  if (m->version != (40 | 2 << 24)) return VERSION_MISMATCH;
  sleep(number(t, "hang", 0));
  m->total = number(t, "total", 0); m->reserved = number(t, "reserved", 0);
  m->free = number(t, "free", 0); m->used = number(t, "used", 0);
  return number(t, "memory", 0);
}
#endif

static int list(void *device, unsigned *n, char *into, const char *kind, unsigned stride) {
  unsigned room = *n;
  struct thing *t = of(device);
  if (!t) return INVALID_ARGUMENT;
  if (number(t, "processes", 0)) return number(t, "processes", 0);
  *n = number(t, "claims", 0);
  if (*n) return INSUFFICIENT_SIZE;
  for (int i = 0; i < n_processes; i++) {
    char is[32];
    if (processes[i].owner != (intptr_t)device - 1 || strcmp(word(&processes[i], "kind", is, sizeof is, "compute"), kind)) continue;
    if (*n < room && into) {
      char *entry = into + *n * stride;
      memset(entry, 0xff, stride);
      *(uint32_t *)entry = number(&processes[i], "pid", 1);
      *(uint64_t *)(entry + 8) = number(&processes[i], "used", 0);
    }
    ++*n;
  }
  return *n > room ? INSUFFICIENT_SIZE : SUCCESS;
}
#ifdef OLD
int nvmlDeviceGetComputeRunningProcesses(void *d, unsigned *n, void *l) { return list(d, n, l, "compute", 16); }
int nvmlDeviceGetGraphicsRunningProcesses(void *d, unsigned *n, void *l) { return list(d, n, l, "graphics", 16); }
#else
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, void *l) { return list(d, n, l, "compute", STRIDE); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, void *l) { return list(d, n, l, "graphics", STRIDE); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *d, unsigned *n, void *l) { return list(d, n, l, "mps", STRIDE); }
#endif

static int value(void *device, const char *key, unsigned *into) {
  struct thing *t = of(device);
  if (!t) return INVALID_ARGUMENT;
  uint64_t v = number(t, key, (uint64_t)-1);
  *into = v;
  return v == (uint64_t)-1 ? NOT_SUPPORTED : SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
  char text[16];
  struct thing *t = of(device);
  if (!t) return INVALID_ARGUMENT;
  return sscanf(word(t, "cc", text, sizeof text, "9.0"), "%d.%d", major, minor) == 2 ? SUCCESS : NOT_SUPPORTED;
}
int nvmlDeviceGetComputeMode(void *d, unsigned *mode) { return value(d, "mode", mode); }
int nvmlDeviceGetDriverModel_v2(void *d, unsigned *now, unsigned *later) { *later = 0; return value(d, "model", now); }
int nvmlDeviceGetVirtualizationMode(void *d, unsigned *mode) { return value(d, "virtual", mode); }
#ifndef OLD
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *later) { *later = 0; return value(d, "mig", now); }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { *n = of(d) ? 7 : 0; return of(d) ? SUCCESS : INVALID_ARGUMENT; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned index, void **mig) {
  struct thing *t = of(d);
  for (int i = 0; t && i < n_things; i++)
    if (things[i].card == t->card && things[i].instance == (int)index) {
      *mig = (void *)(intptr_t)(i + 1);
      return SUCCESS;
    }
  return NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(void *d, unsigned *id) { return value(d, "gi", id); }
int nvmlDeviceGetComputeInstanceId(void *d, unsigned *id) { return value(d, "ci", id); }
#endif
