// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wasm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/leatdev/leat/render"
)

const (
	// maxCompiled bounds the compiled modules that are kept while no step uses them. A compiled Go
	// module has some 13 MB.
	maxCompiled = 4
	// maxPages is the most memory that a module may declare, in pages of 64 KiB: all that it can
	// address. A sandbox bounds what it gets.
	maxPages = 1 << 16
	// startFunction is the export of a WASI command.
	startFunction = "_start"
)

// modules compiles modules, and keeps the most recently used ones. It is safe for concurrent use.
type modules struct {
	mu       sync.Mutex // guards what follows
	runtime  wazero.Runtime
	compiled []*module // the last used ones last
}

// module is a compiled module.
type module struct {
	owner    *modules
	sum      [sha256.Size]byte
	compiled wazero.CompiledModule
	users    int // guarded by the owner's mutex
}

func newModules() *modules { return &modules{} }

// get returns the compiled module of a file, which the caller releases. Several callers wait for one
// another, also if they want different modules: compiling needs the processor, and much memory.
func (m *modules) get(ctx context.Context, file string, binary []byte) (*module, error) {
	sum := sha256.Sum256(binary)
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.compiled, func(known *module) bool { return known.sum == sum }); i >= 0 {
		known := m.compiled[i]
		m.compiled = append(slices.Delete(m.compiled, i, i+1), known)
		known.users++
		return known, nil
	}
	if err := m.startLocked(ctx); err != nil {
		return nil, err
	}
	compiled, err := m.runtime.CompileModule(ctx, binary)
	if err != nil {
		return nil, &render.Error{Path: file, Cause: fmt.Errorf("is not a usable WebAssembly module: %s", firstLine(err.Error()))}
	}
	if err := checkInterface(compiled); err != nil {
		_ = compiled.Close(ctx) // it only frees memory
		return nil, &render.Error{Path: file, Cause: err}
	}
	made := &module{owner: m, sum: sum, compiled: compiled, users: 1}
	m.compiled = append(m.compiled, made)
	m.evictLocked(ctx)
	return made, nil
}

// startLocked makes the runtime of all modules, once.
func (m *modules) startLocked(ctx context.Context) error {
	if m.runtime != nil {
		return nil
	}
	lasting := context.WithoutCancel(ctx)
	runtime := wazero.NewRuntimeWithConfig(lasting, wazero.NewRuntimeConfig().WithMemoryLimitPages(maxPages).WithCloseOnContextDone(true))
	if _, err := wasi_snapshot_preview1.Instantiate(lasting, runtime); err != nil {
		return errors.Join(fmt.Errorf("start WASI: %w", err), runtime.Close(lasting))
	}
	m.runtime = runtime
	return nil
}

// evictLocked frees the modules that were not used for longest, if there are too many.
func (m *modules) evictLocked(ctx context.Context) {
	for i := 0; i < len(m.compiled) && len(m.compiled) > maxCompiled; {
		if m.compiled[i].users > 0 {
			i++
			continue
		}
		_ = m.compiled[i].compiled.Close(ctx) // it only frees memory
		m.compiled = slices.Delete(m.compiled, i, i+1)
	}
}

// release ends the caller's use of a module.
func (m *module) release(ctx context.Context) {
	m.owner.mu.Lock()
	defer m.owner.mu.Unlock()
	m.users--
	m.owner.evictLocked(ctx)
}

func (m *modules) close(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compiled = nil
	if m.runtime == nil {
		return nil
	}
	return m.runtime.Close(ctx)
}

// checkInterface returns an error about a module that is not a command of WASI preview 1.
func checkInterface(compiled wazero.CompiledModule) error {
	for _, function := range compiled.ImportedFunctions() {
		if owner, name, _ := function.Import(); owner != wasi_snapshot_preview1.ModuleName {
			return fmt.Errorf("imports %s.%s, which nobody offers; build it for WASI preview 1, such as GOOS=wasip1 GOARCH=wasm", owner, name)
		}
	}
	for _, memory := range compiled.ImportedMemories() {
		owner, name, _ := memory.Import()
		return fmt.Errorf("imports the memory %s.%s, which nobody offers; build it for WASI preview 1", owner, name)
	}
	if compiled.ExportedFunctions()[startFunction] == nil {
		return fmt.Errorf("has no function %s; build it as a command, not as a library", startFunction)
	}
	return nil
}

// firstLine returns the beginning of a message without the stack below it.
func firstLine(text string) string {
	const most = 500
	line, _, _ := strings.Cut(text, "\n")
	return strings.ToValidUTF8(line[:min(len(line), most)], "")
}
