// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command hostile is a module that does what spec.config.do of its functionConfig says.
package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

type list struct {
	FunctionConfig struct {
		Kind string
		Spec struct {
			Config struct {
				Do, Text string
			}
		}
	}
	Items []map[string]any
}

func main() {
	request, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	var in list
	if err := json.Unmarshal(request, &in); err != nil {
		panic(err)
	}
	text := in.FunctionConfig.Spec.Config.Text
	switch in.FunctionConfig.Spec.Config.Do {
	case "loop":
		for i := 0; ; i++ {
			sink = nil
		}
	case "sleep":
		time.Sleep(time.Hour)
		reply("slept")
	case "memory":
		for {
			sink = append(sink, make([]byte, 16<<20))
		}
	case "output":
		for {
			fmt.Println(strings.Repeat("x", 1<<16))
		}
	case "deep":
		var f func(int) int
		f = func(n int) int { return f(n+1) + 1 }
		fmt.Println(f(0))
	case "exit":
		for i := range 10_000 {
			fmt.Fprintf(os.Stderr, "line %d\n", i)
		}
		fmt.Fprintln(os.Stderr, text)
		os.Exit(3)
	case "panic":
		panic(text)
	case "print": // the text itself is the output
		fmt.Print(text)
	case "machine":
		reply(machine())
	case "request":
		reply(string(request))
	default:
		reply("nothing")
	}
}

var sink [][]byte

// machine tries to reach everything.
func machine() string {
	var found []string
	note := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	note("arguments %q", os.Args)
	note("environment %q", os.Environ())
	for _, name := range []string{"/", "/etc/passwd", "/src/../etc/passwd", "/proc/self/environ", "../etc/passwd", "/tmp"} {
		if _, err := os.Open(name); err == nil {
			note("opens %s", name)
		}
	}
	for _, do := range []func() error{
		func() error { return os.WriteFile("/src/new", nil, 0o600) },
		func() error { return os.WriteFile("/src/a.txt", []byte("x"), 0o600) },
		func() error { return os.Remove("/src/a.txt") },
		func() error { return os.Mkdir("/src/folder", 0o700) },
		func() error { return os.Rename("/src/a.txt", "/src/b.txt") },
		func() error { return os.Symlink("/etc/passwd", "/src/link") },
		func() error { return os.WriteFile("/new", nil, 0o600) },
	} {
		if do() == nil {
			note("changes the tree")
		}
	}
	note("time %s", time.Now().UTC().Format(time.RFC3339Nano))
	var files []string
	_ = fs.WalkDir(os.DirFS("/src"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasSuffix(path, ".wasm") {
			content, _ := os.ReadFile("/src/" + path)
			stat, _ := entry.Info()
			files = append(files, fmt.Sprintf("%s=%s %v %d", path, content, stat.Mode(), stat.ModTime().Unix()))
		}
		return nil
	})
	note("files %q", files)
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	note("random %x", random)
	return strings.Join(found, "\n")
}

// reply writes one object with a text.
func reply(text string) {
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList",
		"items": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"text": text}}},
	})
}
