# A front door: every target forwards to CMake or to a script. CMake is the one real build.
BUILD ?= build/release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_ARGS ?=
MAKEFLAGS += --no-print-directory

configure = cmake -S . -B "$(BUILD)" -DCMAKE_BUILD_TYPE=Release $(CMAKE_ARGS)
compile = cmake --build "$(BUILD)" -j $(JOBS)

.PHONY: all tools demo test bench docs install clean help
.DEFAULT_GOAL := all

all: ## the library, and the attn command where jansson and libpng are installed
	@scripts/bootstrap.sh library
	@if scripts/bootstrap.sh --have tools; then tools=ON; else tools=OFF; \
	  echo "the attn command is left out: jansson or libpng is missing (make tools installs them)"; fi; \
	$(configure) -DATTN_TOOLS=$$tools -DATTN_TESTS=OFF && $(compile)

tools: ## the library and the attn command; installs what is missing
	@scripts/bootstrap.sh tools
	@$(configure) -DATTN_TOOLS=ON -DATTN_TESTS=OFF && $(compile)

demo: tools ## real attention of a sentence model: error, time and a picture for every layer
	@mkdir -p build/demo
	@"$(BUILD)/tools/attn" demo --data examples/minilm -o build/demo

test: ## everything a change must pass (scripts/test.sh --help lists the stages)
	@scripts/test.sh

bench: tools ## speed on this machine
	@bench/run.sh "$(BUILD)/tools/attn"

docs: ## the API reference, into build/docs/html
	@scripts/docs.sh

install: all ## into PREFIX (/usr/local); DESTDIR is honoured
	@cmake --install "$(BUILD)" --prefix "$(PREFIX)"

clean: ## removes the build folder
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile
