// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package supply checks what Leat is built from: it compares its modules with advisories, writes an
// inventory (SBOM) of each program, pins the digests of the images from which it is built and run,
// and writes the certificate authorities that its own images trust.
//
// It does not check which functions a program calls, as govulncheck does, so it reports more. It
// finds only advisories that its databases contain.
package supply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// stdlib is the name of the standard library in the Go vulnerability database.
const stdlib = "stdlib"

// Programs returns the packages of all deployed programs.
func Programs() []string {
	return []string{
		"./services/gitcache/cmd/gitcache", "./services/distributor/cmd/distributor", "./services/tunnel/cmd/tunnel",
		"./services/agent/cmd/agent", "./cli/cmd/leat",
	}
}

// Modules returns the modules from which the packages are built for Linux, including the standard
// library. root is the root of a checkout.
func Modules(ctx context.Context, root string, packages ...string) ([]Module, error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-json=ImportPath,Standard,Module"}, packages...)...)
	list.Dir, list.Env = root, append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	var complaints bytes.Buffer
	list.Stderr = &complaints
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list modules: %w: %s", err, bytes.TrimSpace(complaints.Bytes()))
	}
	version := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	version.Dir = root
	goVersion, err := version.Output()
	if err != nil {
		return nil, fmt.Errorf("ask for the version of Go: %w", err)
	}
	release, _, _ := strings.Cut(strings.TrimSpace(string(goVersion)), " ")
	return parseModules(out, "v"+strings.TrimPrefix(release, "go"))
}

// listed is a package in the output of go list.
type listed struct {
	ImportPath string
	Standard   bool
	Module     *struct {
		Path    string
		Version string
		Main    bool
		Replace *struct{ Path, Version string }
	}
}

func parseModules(out []byte, goVersion string) ([]Module, error) {
	at, modules := map[string]int{}, []Module(nil)
	add := func(path, version, pkg string) {
		i, ok := at[path]
		if !ok {
			i = len(modules)
			at[path], modules = i, append(modules, Module{Path: path, Version: version})
		}
		modules[i].Packages = append(modules[i].Packages, pkg)
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return modules, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read list of modules: %w", err)
		}
		switch {
		case p.Standard:
			add(stdlib, goVersion, p.ImportPath)
		case p.Module != nil && p.Module.Replace != nil && p.Module.Replace.Version != "":
			add(p.Module.Replace.Path, p.Module.Replace.Version, p.ImportPath)
		case p.Module != nil && !p.Module.Main && p.Module.Replace == nil:
			add(p.Module.Path, p.Module.Version, p.ImportPath)
		}
	}
}
