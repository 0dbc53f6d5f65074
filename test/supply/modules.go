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
	env := []string{"GOOS=linux", "CGO_ENABLED=0"}
	out, err := goOutput(ctx, root, env, append([]string{"list", "-deps", "-json=ImportPath,Standard,Module"}, packages...)...)
	if err != nil {
		return nil, err
	}
	goVersion, err := goOutput(ctx, root, nil, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	release, _, _ := strings.Cut(strings.TrimSpace(string(goVersion)), " ")
	return parseModules(out, "v"+strings.TrimPrefix(release, "go"))
}

// goOutput returns what go prints in the checkout at root, with these variables beside those of this
// process.
func goOutput(ctx context.Context, root string, env []string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env = root, append(os.Environ(), env...)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(complaints.Bytes()))
	}
	return out, nil
}

// listed is a package in the output of go list.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	Module     *struct {
		Path    string
		Version string
		Dir     string
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
	packages, err := parseList(out)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		switch {
		case p.Standard:
			add(stdlib, goVersion, p.ImportPath)
		case p.Module != nil && p.Module.Replace != nil && p.Module.Replace.Version != "":
			add(p.Module.Replace.Path, p.Module.Replace.Version, p.ImportPath)
		case p.Module != nil && !p.Module.Main && p.Module.Replace == nil:
			add(p.Module.Path, p.Module.Version, p.ImportPath)
		}
	}
	return modules, nil
}

// parseList returns the packages that go list -json prints.
func parseList(out []byte) ([]listed, error) {
	var packages []listed
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read list of packages: %w", err)
		}
		packages = append(packages, p)
	}
}
