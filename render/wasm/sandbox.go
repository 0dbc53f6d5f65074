// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wasm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	chacha "math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/treefs"
)

// treeFolder is where a module finds the service's tree.
const treeFolder = "/src"

// sandbox is everything that one run of a module can reach.
type sandbox struct {
	options renderstep.WASMOptions
	files   *treefs.FS
	input   []byte
	output  *output
	errors  *tail
	memory  *memoryLimit
}

func newSandbox(in render.StepInput, options renderstep.WASMOptions, request []byte, memory uint64) *sandbox {
	return &sandbox{
		options: options, files: treefs.New(in.Files), input: request,
		output: &output{most: in.Limits.Text}, errors: &tail{}, memory: &memoryLimit{most: memory},
	}
}

// config returns the configuration of the module's instance. The name of the program is its only
// argument: programs expect one.
func (s *sandbox) config(ctx context.Context, name string) wazero.ModuleConfig {
	config := wazero.NewModuleConfig().WithName("").WithArgs(path.Base(name)).
		WithStdin(bytes.NewReader(s.input)).WithStdout(s.output).WithStderr(s.errors).
		WithFSConfig(wazero.NewFSConfig().WithFSMount(s.files, treeFolder))
	if s.options.AllowRandom {
		config = config.WithRandSource(rand.Reader)
	} else {
		config = config.WithRandSource(chacha.NewChaCha8([32]byte{}))
	}
	if s.options.AllowClock {
		return config.WithSysWalltime().WithSysNanotime().WithNanosleep(func(ns int64) { sleep(ctx, ns) })
	}
	clock := new(stillClock)
	return config.WithWalltime(clock.wall, sys.ClockResolution(time.Microsecond)).
		WithNanotime(clock.monotonic, sys.ClockResolution(time.Microsecond)).WithNanosleep(clock.sleep)
}

// sleep pauses a module, until its time is over.
func sleep(ctx context.Context, ns int64) {
	timer := time.NewTimer(time.Duration(ns))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// monotonicStart is the still clock's monotonic time in nanoseconds. Go's runtime refuses zero.
const monotonicStart = int64(time.Second)

// stillClock begins in 1970 and does not move, except that a module that sleeps moves it: programs
// wait for a time that has to come. The module uses it from one goroutine.
type stillClock struct{ slept int64 }

func (c *stillClock) wall() (seconds int64, nanoseconds int32) {
	return c.slept / int64(time.Second), int32(c.slept % int64(time.Second))
}

func (c *stillClock) monotonic() int64 { return monotonicStart + c.slept }

func (c *stillClock) sleep(ns int64) { c.slept += max(ns, 0) }

// output is the standard output of a module. It ends a module that writes too much: most programs
// ignore that a write failed.
type output struct {
	text     bytes.Buffer
	most     int64
	end      context.CancelFunc
	exceeded bool
}

var errTooMuch = errors.New("the output exceeds its limit")

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	if o.exceeded || int64(o.text.Len()+len(text)) > o.most {
		o.exceeded = true
		o.end()
		return 0, errTooMuch
	}
	return o.text.Write(text)
}

// tail keeps the end of the standard error.
type tail struct{ text []byte }

var _ io.Writer = (*tail)(nil)

// Write implements io.Writer.
func (t *tail) Write(text []byte) (int, error) {
	kept := text[max(0, len(text)-maxErrors):]
	t.text = append(t.text[max(0, len(t.text)+len(kept)-maxErrors):], kept...)
	return len(text), nil
}

// quoted returns the text for the end of a message.
func (t *tail) quoted() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.text), ""))
	if text == "" {
		return ""
	}
	return fmt.Sprintf("; its standard error ends: %s", text)
}

// memoryLimit bounds the linear memory of one instance, and notes whether the module wanted more. A
// module that is refused memory fails in a way of its own, which does not name the reason.
type memoryLimit struct {
	most     uint64
	exceeded bool
}

// context returns a context that makes the runtime allocate an instance's memory here.
func (m *memoryLimit) context(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(capacity, _ uint64) experimental.LinearMemory {
		return &linearMemory{limit: m, bytes: make([]byte, 0, min(capacity, m.most))}
	}))
}

// linearMemory implements experimental.LinearMemory.
type linearMemory struct {
	limit *memoryLimit
	bytes []byte
}

// Reallocate implements experimental.LinearMemory.
func (l *linearMemory) Reallocate(size uint64) []byte {
	if size > l.limit.most {
		l.limit.exceeded = true
		return nil
	}
	if grown := int(size) - len(l.bytes); grown > 0 {
		l.bytes = append(l.bytes, make([]byte, grown)...)
	}
	return l.bytes
}

// Free implements experimental.LinearMemory.
func (l *linearMemory) Free() { l.bytes = nil }
