# One Makefile, no recursion, nothing written outside $(O).
# `make help` lists the targets; `make config` shows what was found.

MODE   ?= release
O      ?= build$(if $(filter-out release,$(MODE)),/$(MODE))
PREFIX ?= /usr/local
VERSION := 0.1.0

# --- what is on this machine: 1, 0, or forced on the command line -----------
PKG_CONFIG ?= pkg-config
found = $(shell $(PKG_CONFIG) --exists '$(1)' 2>/dev/null && echo 1 || echo 0)
# Does a line of C compile and link with these flags?  Never a guess from a file name.
compiles = $(shell printf '%s\n' '$(1)' | $(CC) -x c - -o /dev/null $(2) 2>/dev/null && echo 1 || echo 0)

ifneq ($(filter-out help clean deps demo test soak,$(or $(MAKECMDGOALS),all)),)
REQUIRED := yaml-0.1=libyaml-dev jansson=libjansson-dev sqlite3=libsqlite3-dev \
            pmix=libpmix-dev ompi-c=libopenmpi-dev openblas=libopenblas-dev
absent := $(foreach r,$(REQUIRED),$(if $(filter 0,$(call found,$(firstword $(subst =, ,$(r))))),$(lastword $(subst =, ,$(r)))))
ifneq ($(strip $(absent)),)
  $(error not installed: $(absent); run `make deps`, or apt-get install them)
endif

# libssh reads keys and speaks the protocol; libcrypto (which it stands on) hashes names.
LIBSSH ?= $(if $(filter 1,$(call found,libssh)),$(call found,libcrypto),0)

# libslurm is loaded at run time; of its header one major version is known, that of the
# library which a program of this machine links (its soname's number).
SLURM_SO := $(if $(filter 0,$(SLURM)),,$(shell t=$$(mktemp) && \
    printf '%s\n' '#include <slurm/slurm.h>' 'int main(void) { return !slurm_api_version(); }' | \
    $(CC) -x c - -o $$t -lslurm 2>/dev/null && readelf -d $$t | sed -n 's/.*\[libslurm\.so\.\([0-9]*\)\].*/\1/p'; rm -f $$t))
SLURM ?= $(if $(SLURM_SO),1,0)
ifeq ($(SLURM)$(SLURM_SO),1)
  $(error SLURM=1, but a program with <slurm/slurm.h> does not link: install libslurm-dev)
endif

# libibnetdisc is loaded at run time too; its header says what a fabric looks like.
IBNET ?= $(call compiles,#include <infiniband/ibnetdisc.h>,-c)

# A program without shared libraries starts in two thirds of the time.
STATIC ?= $(if $(filter release debug,$(MODE)),$(call compiles,int main(void) { return 0; },-static -ljansson),0)

NVCC ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(shell ls /usr/local/cuda/bin/nvcc 2>/dev/null))
CUDA_HOME := $(if $(NVCC),$(abspath $(dir $(shell readlink -f $(NVCC)))..))
CUDA_FLAGS := $(if $(NVCC),-I$(CUDA_HOME)/include -L$(CUDA_HOME)/lib64 -L$(CUDA_HOME)/lib64/stubs)
CUDA  ?= $(if $(NVCC),$(call compiles,#include <cublasLt.h>,$(CUDA_FLAGS) -c),0)
# windows and zero-CTA gathers need NCCL 2.28
NCCL  ?= $(if $(filter 1,$(CUDA)),$(call compiles,int v[NCCL_VERSION_CODE >= 22800 ? 1 : -1];,$(CUDA_FLAGS) -include nccl.h -c),0)
CUDNN ?= $(if $(filter 1,$(CUDA)),$(call compiles,#include <cudnn_graph.h>,$(CUDA_FLAGS) -c),0)
CUPTI ?= $(if $(filter 1,$(CUDA)),$(call compiles,#include <nvtx3/nvToolsExt.h>,$(CUDA_FLAGS) -include cupti.h -c),0)
ifeq ($(CUDA)$(NVCC),1)
  $(error CUDA=1, but there is no nvcc on PATH: set NVCC=)
endif
endif

# --- flags ------------------------------------------------------------------
# WERROR=1 (as CI builds) turns warnings into errors.  Not where a user builds: another compiler knows
# other warnings.  Not under sanitizers: gcc's false ones multiply there.
WERROR ?= 0
FATAL  := $(if $(filter 1,$(WERROR)),$(if $(filter release debug,$(MODE)),-Werror))
WARN   := -Wall -Wextra $(FATAL) -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
          -Wwrite-strings -Wvla -Wformat=2 -Wno-unused-result -Wno-pass-failed
OPT_release := -O3 -g -fno-math-errno -fno-trapping-math
OPT_debug   := -O1 -g
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT_tsan    := -O1 -g -fsanitize=thread
OPT_cov     := -O0 -g --coverage
OPT_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ifeq ($(origin OPT_$(MODE)),undefined)
  $(error MODE=$(MODE) is not one of release debug asan tsan cov fuzz)
endif
ifeq ($(MODE),fuzz)
  CC := clang
endif

# -iquote, not -I: our recipes/yaml.h must never answer for <yaml.h>.
OURS := -iquote . -iquote recipes -iquote tests/unit -iquote $(O)
CPPFLAGS += -D_GNU_SOURCE -DMUSTER_VERSION='"$(VERSION)"' -DHAVE_CUDA=$(CUDA) -DHAVE_NCCL=$(NCCL) -DHAVE_CUDNN=$(CUDNN) \
            -DHAVE_LIBSSH=$(LIBSSH) -DHAVE_IBNETDISC=$(IBNET)
PKGS_SSH := $(if $(filter 1,$(LIBSSH)),libssh libcrypto)
PKGS   := yaml-0.1 jansson sqlite3 pmix openblas $(PKGS_SSH)
MPI_C  := $(shell $(PKG_CONFIG) --cflags ompi-c 2>/dev/null)
MPI_L  := $(shell $(PKG_CONFIG) --libs ompi-c 2>/dev/null)
CPPFLAGS += $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null) $(MPI_C)
CFLAGS ?=
ALL_CFLAGS := -std=gnu11 -fopenmp-simd $(WARN) $(OPT_$(MODE)) $(CFLAGS)
pkg_libs = $(shell $(PKG_CONFIG) --libs $(1) 2>/dev/null)
LIBS_muster := $(call pkg_libs,yaml-0.1 jansson sqlite3 pmix $(PKGS_SSH)) -ldl -lpthread -lm
LIBS_rank   := $(call pkg_libs,yaml-0.1 jansson pmix) -ldl -lpthread -lm
LIBS_all    := $(call pkg_libs,$(filter-out openblas,$(PKGS))) -ldl -lpthread -lm

GENCODE ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_89,code=sm_89 \
           -gencode arch=compute_90,code=sm_90 -gencode arch=compute_100,code=sm_100 \
           -gencode arch=compute_120,code=sm_120
GENCODE_sm90 := -gencode arch=compute_90a,code=sm_90a
NVFLAGS := -std=c++17 -O3 -lineinfo -Xcompiler -fPIC,-Wall,-fvisibility=hidden

# --- what is built ----------------------------------------------------------
# Low to high.  A folder may use those before it.  `make lint` checks the
# includes; linking each folder's unit tests without those above checks the symbols.
LAYERS := recipes topology trainer checks launcher

MAINS := $(wildcard launcher/main.c launcher/agent_main.c trainer/train.c checks/probe.c)
SRCS  := $(filter-out $(MAINS),$(sort $(foreach l,$(LAYERS),$(wildcard $(l)/*.c $(l)/*/*.c))))
CMDS  := $(patsubst launcher/cmd_%.c,%,$(sort $(wildcard launcher/cmd_*.c)))
# The CUDA module: *.cu and *_cuda.c files, in a shared object that muster-train loads when asked.
CUS   := $(if $(filter 1,$(CUDA)),$(sort $(wildcard trainer/*.cu)))
# Without libssh, one file stands in the place of its door and refuses.
SSH_DOOR := $(patsubst %,launcher/ssh_%.c,link run tcp hop trust auth tunnel)
SRCS  := $(filter-out $(if $(filter 1,$(LIBSSH)),launcher/ssh_absent.c,$(SSH_DOOR)),$(SRCS))
SRCS  := $(filter-out launcher/slurm_$(if $(filter 1,$(SLURM)),absent,lib).c,$(SRCS))
SRCS  := $(filter-out topology/ibnet_$(if $(filter 1,$(IBNET)),absent,live).c,$(SRCS))
CUDA_C := $(sort $(wildcard trainer/*_cuda.c trainer/*_nccl*.c trainer/*_cudnn.c trainer/*_cupti.c))
SRCS  := $(filter-out $(CUDA_C),$(SRCS))
CUDA_C := $(if $(filter 1,$(CUDA)),$(if $(filter 1,$(NCCL)),$(CUDA_C),$(filter-out trainer/coll_nccl%,$(CUDA_C))))
CUDA_C := $(if $(filter 1,$(CUPTI)),$(CUDA_C),$(filter-out %_cupti.c,$(CUDA_C)))
CUDA_C := $(if $(filter 1,$(CUDNN)),$(CUDA_C),$(filter-out %_cudnn.c,$(CUDA_C)))

# What only CPU ranks need, in modules that they load (trainer/module.h).
BLAS_C := trainer/blas_openblas.c
MPI_C_FILES := $(wildcard trainer/coll_mpi*.c)
SRCS   := $(filter-out $(BLAS_C) $(MPI_C_FILES),$(SRCS))
CPU_MODULES := $(O)/lib/muster-blas.so $(O)/lib/muster-mpi.so

B     := $(O)/bin
PROGS := $(B)/muster $(if $(wildcard trainer/train.c),$(B)/muster-train) $(if $(wildcard checks/probe.c),$(B)/muster-probe)
AGENT := $(O)/lib/muster/muster-agent
MODULE := $(if $(CUS),$(O)/lib/muster-cuda.so)
UNITS := $(patsubst %.c,$(O)/%,$(wildcard tests/unit/*/test_*.c))
FUZZ  := $(patsubst %.c,$(O)/%,$(filter-out %/replay.c,$(wildcard tests/fuzz/fuzz_*.c)))
HELPERS := $(patsubst %.c,$(O)/%,$(wildcard tests/cli/helpers/*.c))
# Libraries that tests put in the place of a driver's.
FAKES := $(O)/tests/fake/libnvidia-ml.so.1
BENCHES := $(patsubst %.c,$(O)/%,$(wildcard tests/bench/*.c tests/gpu/test_*.c))

objs  = $(patsubst %.c,$(O)/%.o,$(filter $(1)/%,$(SRCS)))
LIBS := $(foreach l,launcher checks trainer topology recipes,$(if $(call objs,$(l)),$(O)/$(l).a))
UNIT_LIBS := $(call pkg_libs,cmocka)

.DEFAULT_GOAL := all
.PHONY: all programs cuda demo test unit cli replay bench fuzz soak lab-512 lint format config help clean deps install FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: programs cuda ## build the programs, and the CUDA module where nvcc is
programs: $(PROGS) $(AGENT) $(CPU_MODULES) ## build/bin/{muster,muster-train,muster-probe}
cuda: $(MODULE) ## build/lib/muster-cuda.so, which GPU ranks load

define layer
$(O)/$(1).a: $(call objs,$(1)) Makefile
endef
$(foreach l,$(LAYERS),$(eval $(call layer,$(l))))

$(O)/%.a:
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(O)/%.o: %.c $(O)/flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(OURS) $(CPPFLAGS) $(ALL_CFLAGS) $(EXTRA) -MMD -MP -c -o $@ $<

$(O)/launcher/slurm_lib.o: EXTRA = -DSLURM_SO_MAJOR=$(SLURM_SO)
$(O)/launcher/main.o: $(O)/gen/cmds.inc
$(O)/gen/cmds.inc: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)printf 'CMD(%s)\n' $(CMDS) | cmp -s - $@ || printf 'CMD(%s)\n' $(CMDS) >$@

# CUDA: module objects live beside the others, with PIC.
$(O)/%.cu.o: %.cu $(O)/flags
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -Xcompiler '$(OURS)' -I. -Irecipes $(if $(findstring sm90,$<),$(GENCODE_sm90),$(GENCODE)) $(NVFLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(O)/pic/%.o: %.c $(O)/flags
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(OURS) $(CPPFLAGS) -isystem $(CUDA_HOME)/include $(ALL_CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<
# They take what they use of muster from the program that loads them.
$(O)/lib/muster-blas.so: $(patsubst %.c,$(O)/pic/%.o,$(BLAS_C))
$(O)/lib/muster-blas.so: LINKED = $(call pkg_libs,openblas)
$(O)/lib/muster-mpi.so: $(patsubst %.c,$(O)/pic/%.o,$(MPI_C_FILES))
$(O)/lib/muster-mpi.so: LINKED = $(MPI_L)
$(CPU_MODULES):
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -o $@ $^ $(LINKED)

MODULE_C := $(CUDA_C) trainer/ops_cuda_size.c trainer/linear_table.c $(wildcard recipes/base/*.c)
$(O)/lib/muster-cuda.so: $(patsubst %.cu,$(O)/%.cu.o,$(CUS)) $(patsubst %.c,$(O)/pic/%.o,$(MODULE_C))
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -shared -Wl,-Bsymbolic -Wl,--no-undefined -o $@ $^ $(CUDA_FLAGS) -lcublasLt -lcudart_static -lcuda \
	    $(if $(filter 1,$(NCCL)),-lnccl) $(if $(filter 1,$(CUDNN)),-lcudnn) $(call pkg_libs,jansson) -lrt -lpthread -ldl -lm

$(B)/muster: $(O)/launcher/main.o $(LIBS)
$(B)/muster-train: $(O)/trainer/train.o $(filter-out %/launcher.a %/checks.a,$(LIBS))
$(B)/muster-probe: $(O)/checks/probe.o $(filter-out %/launcher.a,$(LIBS))
$(B)/muster: LINKED = $(LIBS_muster)
# `muster agent exec' by itself; one stands beside every rank of a Slurm step, so it must
# cost little to start.
$(AGENT): $(O)/launcher/agent_main.o $(LIBS)
$(AGENT): LINKED = $(call pkg_libs,jansson)
# The linker warns that names are resolved by libraries: not here (launcher/agent_main.c).
ifeq ($(STATIC),1)
$(AGENT): LINK = -static
$(AGENT): SAID = 2>$(O)/agent.log || { cat $(O)/agent.log >&2; exit 1; }
endif
$(B)/muster-train $(B)/muster-probe: LINKED = $(LIBS_rank)
# Modules call back into the program.
$(B)/muster-train $(B)/muster-probe $(HELPERS) $(BENCHES) $(filter $(O)/tests/unit/trainer/%,$(UNITS)): LINK = -rdynamic
$(HELPERS) $(BENCHES) $(UNITS): | $(CPU_MODULES)
# The launcher plans with trainer code (memplan), so it links the archives; what
# it does not use stays out, and so do MPI and BLAS.
$(UNITS) $(FUZZ): LINKED = $(LIBS_all) $(UNIT_LIBS)
$(HELPERS) $(BENCHES): LINKED = $(LIBS_all)
$(O)/tests/cli/helpers/mpi_hello: LINKED += $(MPI_L)

below = $(foreach l,launcher checks trainer topology recipes,$(if $(filter $(l),$(1)),$(eval on := 1))$(if $(on),$(filter $(O)/$(l).a,$(LIBS))))$(eval on :=)
define layer_units
$(filter $(O)/tests/unit/$(1)/%,$(UNITS)): $(O)/%: $(O)/%.o $(call below,$(1))
endef
$(foreach l,$(LAYERS),$(if $(filter $(O)/tests/unit/$(l)/%,$(UNITS)),$(eval $(call layer_units,$(l)))))
# Helpers are ranks too: they may use what muster-train is made of.  Those named ssh_* try
# the launcher's own parts.
SSH_HELPERS := $(filter $(O)/tests/cli/helpers/ssh_%,$(HELPERS))
$(filter-out $(SSH_HELPERS),$(HELPERS)): $(O)/%: $(O)/%.o $(filter-out %/launcher.a %/checks.a,$(LIBS))
$(SSH_HELPERS): $(O)/%: $(O)/%.o $(LIBS)
$(BENCHES): $(O)/%: $(O)/%.o $(LIBS)
ifeq ($(MODE),fuzz)
$(FUZZ): LINK := -fsanitize=fuzzer
$(FUZZ): $(O)/tests/fuzz/%: $(O)/tests/fuzz/%.o $(LIBS)
else
$(FUZZ): $(O)/tests/fuzz/%: $(O)/tests/fuzz/%.o $(O)/tests/fuzz/replay.o $(LIBS)
endif

$(O)/tests/fake/libnvidia-ml.so.1: tests/fake/nvml.c $(O)/flags
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -shared -fPIC -Wl,-soname,$(@F) -o $@ $<

$(PROGS) $(AGENT) $(UNITS) $(FUZZ) $(HELPERS) $(BENCHES):
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LINKED) $(SAID)

# Rebuild everything in $(O) when the compiler or the flags change.
FLAGS := $(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(NVFLAGS) $(GENCODE) $(LDFLAGS) $(LIBS_all) $(STATIC)
$(O)/flags: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)printf '%s\n' '$(subst ','\'',$(FLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS))' >$@

# --- using it -----------------------------------------------------------------
deps: ## install what is missing (apt; sudo only when needed)
	$(Q)sh tests/deps.sh

demo: deps ## build, then take recipes/demo.yaml through every stage on this machine
	$(Q)$(MAKE) --no-print-directory programs $(if $(wildcard /dev/nvidia0),cuda)
	$(Q)sh tests/demo.sh

install: all ## install into PREFIX (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/muster/clusters
	install -d $(DESTDIR)$(PREFIX)/lib/muster
	install $(PROGS) $(DESTDIR)$(PREFIX)/bin
	install $(AGENT) $(DESTDIR)$(PREFIX)/lib/muster
	install -m 644 recipes/*.yaml $(DESTDIR)$(PREFIX)/share/muster
	install -m 644 recipes/clusters/*.yaml $(DESTDIR)$(PREFIX)/share/muster/clusters
	install $(CPU_MODULES) $(MODULE) $(DESTDIR)$(PREFIX)/lib

# --- checking -------------------------------------------------------------------
test: ## everything that needs no special hardware; installs what that needs
	$(Q)sh tests/deps.sh test
	$(Q)$(MAKE) --no-print-directory test-run
test-run: programs $(UNITS) $(FUZZ) $(HELPERS) $(FAKES)
	$(Q)O='$(abspath $(O))' sh tests/run.sh

unit: $(UNITS) $(FAKES) ## C tests, one program a module
	$(Q)O='$(abspath $(O))' sh tests/run.sh unit
cli: programs $(HELPERS) $(FAKES) ## command-line tests
	$(Q)O='$(abspath $(O))' sh tests/run.sh cli
replay: $(FUZZ) ## run every fuzzer over its saved inputs
	$(Q)O='$(abspath $(O))' sh tests/run.sh replay
ifeq ($(CUDA),1)
bench: $(O)/tests/bench/gpu_grouped
$(O)/tests/bench/gpu_grouped: tests/bench/gpu_grouped.cu $(O)/trainer/gemm_grouped_sm90.cu.o $(O)/trainer/gemm_grouped_mma.cu.o
	$(call say,NVCC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -I. -Irecipes $(GENCODE) -std=c++17 -O3 -o $@ $^ $(CUDA_FLAGS) -lcuda
endif
bench: $(BENCHES) ## build the benchmarks and the GPU tests; tests/bench/RESULTS.md says how to run them
fuzz: ## fuzz for FUZZ_SECONDS (60) a target; clang only
	$(Q)$(MAKE) --no-print-directory MODE=fuzz fuzz-run
fuzz-run: $(FUZZ)
	$(Q)for f in $(FUZZ); do mkdir -p $(O)/corpus/$${f##*/fuzz_}; $$f -max_total_time=$(or $(FUZZ_SECONDS),60) \
	    -max_len=65536 -print_final_stats=1 $(O)/corpus/$${f##*/fuzz_} tests/fuzz/corpus/$${f##*/fuzz_} || exit 1; done

lab-512: deps programs ## launch 512 simulated ranks on 64 virtual nodes of a real Slurm here, and print its figures
	$(Q)sh tests/deps.sh test
	$(Q)O='$(abspath $(O))' bash tests/lab/large.sh

soak: deps ## the long counts: random kills, fuzzing (SEED, COUNT, FUZZ_SECONDS); resumable
	$(Q)$(MAKE) --no-print-directory programs soak-run
soak-run: programs $(UNITS) $(FUZZ) $(HELPERS)
	$(Q)O='$(abspath $(O))' sh tests/soak.sh

C_FILES := $(wildcard $(foreach l,$(LAYERS),$(l)/*.[ch] $(l)/*/*.[ch]) tests/*/*.[ch] tests/unit/*/*.[ch] tests/cli/helpers/*.c)
lint: $(O)/gen/cmds.inc ## layering, dependency and size rules; format; headers; clang-tidy; shellcheck
	$(Q)sh tests/lint/rules.sh $(wildcard $(LAYERS))
	$(Q)clang-format --dry-run -Werror $(C_FILES)
	$(Q)for h in $(filter %.h,$(C_FILES)); do \
	    $(CC) $(OURS) $(CPPFLAGS) -std=gnu11 -fsyntax-only -x c $$h || { echo "$$h does not stand alone"; exit 1; }; done
	$(Q)printf '%s\n' $(SRCS) $(MAINS) | xargs -P2 -I{} clang-tidy --quiet {} -- $(OURS) $(CPPFLAGS) -std=gnu11 2>/dev/null
	$(Q)shellcheck -s sh tests/*.sh tests/lint/*.sh $(filter-out tests/lab/large.sh tests/lab/slurm_ps.sh,$(wildcard tests/lab/*.sh)) && shellcheck -s bash .ci/run tests/soak/*.sh tests/lab/large.sh tests/lab/slurm_ps.sh

format: ## rewrite the sources in the house style
	clang-format -i $(C_FILES)

config: ## what will be built, and why
	@echo 'mode  $(MODE), into $(O)'
	@echo 'cc    $(CC) $(ALL_CFLAGS)'
	@echo 'pmix  $(shell $(PKG_CONFIG) --modversion pmix)   mpi $(shell $(PKG_CONFIG) --modversion ompi-c)   blas $(shell $(PKG_CONFIG) --modversion openblas)'
	@echo 'cuda  $(if $(filter 1,$(CUDA)),$(NVCC),no)   nccl $(NCCL)   cudnn $(CUDNN)   cupti $(CUPTI)   libssh $(LIBSSH)   libslurm $(or $(SLURM_SO),0)   libibnetdisc $(IBNET)   static $(STATIC)'

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo; echo '  MODE=release|debug|asan|tsan|cov|fuzz  CC=gcc|clang  CUDA=0|1  NCCL=0|1  CUDNN=0|1  CUPTI=0|1  LIBSSH=0|1  SLURM=0|1  IBNET=0|1  STATIC=0|1  V=1  O=dir'

clean: ## remove build/
	rm -rf build

Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2:$(O)/%=%)')

-include $(shell find $(O) -type f -name '*.d' 2>/dev/null)
