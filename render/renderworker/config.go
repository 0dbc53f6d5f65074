// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderworker

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/runtime/config"
)

// Config holds the settings of workers. A zero field means its default.
type Config struct {
	// Workers is how many renders run at once. Zero: 2 if the container's memory is not limited, or
	// to 1 GiB and more, so that content that takes all its time holds up fewer others; otherwise 1.
	Workers int
	// Memory is how many bytes one worker may use. Zero: half of the container's memory divided by
	// Workers, but at least 192 MiB and at most 512 MiB.
	Memory config.Bytes
	// Timeout is how long a render may take. Zero: 30 s.
	Timeout time.Duration
}

const (
	defaultTimeout = 30 * time.Second
	leastTimeout   = time.Second
	leastMemory    = 192 * config.MiB // with less, a worker does not start
	mostMemory     = 512 * config.MiB
	roomForTwo     = 1 << 30
)

// Bind binds the fields.
func (c *Config) Bind(s *config.Set) {
	s.Int(&c.Workers, "agent-render-workers", 0, "number of services that are rendered at once, each in a process of its own; "+
		"0 means 2 if the container's memory is not limited, or to 1 GiB and more, otherwise 1; plain manifests need none")
	s.Size(&c.Memory, "agent-render-memory", 0,
		"memory of a process that renders; 0 means half of the container's, divided by their number, but 192 MiB to 512 MiB")
	s.Duration(&c.Timeout, "agent-render-timeout", defaultTimeout, "maximum time to render one service")
}

// Check returns an error if the settings are invalid.
func (c *Config) Check() error {
	var errs []error
	if c.Workers < 0 {
		errs = append(errs, fmt.Errorf("--agent-render-workers is %d, want at least 0", c.Workers))
	}
	if c.Memory != 0 && c.Memory < leastMemory {
		errs = append(errs, fmt.Errorf("--agent-render-memory is %v, want 0 or at least %v", c.Memory, leastMemory))
	}
	if c.Timeout != 0 && c.Timeout < leastTimeout {
		errs = append(errs, fmt.Errorf("--agent-render-timeout is %v, want at least %v", c.Timeout, leastTimeout))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Workers <= 0 {
		c.Workers = workersIn(Container())
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.Memory <= 0 {
		c.Memory = memoryOf(Container(), c.Workers)
	}
	return c
}

// workersIn returns the default number of workers in a container that may use container bytes; zero:
// as many as there are.
func workersIn(container int64) int {
	if container > 0 && container < roomForTwo {
		return 1
	}
	return 2
}

// memoryOf returns the default memory of each of the workers in a container that may use container
// bytes.
func memoryOf(container int64, workers int) config.Bytes {
	const half = 2
	if container <= 0 {
		return mostMemory
	}
	return min(max(config.Bytes(container/half)/config.Bytes(workers), leastMemory), mostMemory)
}

// errNotServing reports a mistake in a program, not in its settings.
var errNotServing = errors.New("nothing but plain manifests can be rendered: this program does not call renderworker.Serve first")

// thisProgram returns the path of the running program, if the program can be a worker.
func thisProgram() (string, error) {
	if !canServe.Load() {
		return "", errNotServing
	}
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program for render workers: %w", err)
	}
	return program, nil
}

// Container returns how many bytes of memory this process and its children may use, or zero if no
// limit is set.
func Container() int64 {
	return containerAt("/sys/fs/cgroup")
}

// containerAt returns the memory limit of the control group that is mounted at root, or zero if it
// has no limit. In a container that is the container's own group.
func containerAt(root string) int64 {
	limit := int64(math.MaxInt64)
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		if bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bytes > 0 {
			limit = min(limit, bytes)
		}
	}
	if limit >= math.MaxInt64/2 { // version 1 of control groups writes a number close to that for "none"
		return 0
	}
	return limit
}
