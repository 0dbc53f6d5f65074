// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rendertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/renderstep"
)

// Attack is content that costs a renderer all the memory or time that it gets.
type Attack struct {
	// Name describes the content.
	Name string
	// Step renders Files.
	Step  renderstep.Step
	Files map[string]string
	// Allocates reports that it asks for gigabytes in one piece.
	Allocates bool
}

// Attacks returns attacks on every renderer. Each is small: what it costs is made while it is
// rendered. Each ends at a limit, or as an error about the content.
func Attacks() []Attack {
	var all []Attack
	all = append(all, helmAttacks()...)
	all = append(all, kustomizeAttacks()...)
	all = append(all, programAttacks()...)
	all = append(all, wasmAttacks()...)
	for i := range all {
		all[i].Allocates = slices.Contains([]string{"helm: a list of a thousand million", "helm: a text of 2 GB", "wasm: a table that grows"}, all[i].Name)
	}
	return append(all, Attack{
		Name: "plain: aliases of aliases", Step: renderstep.Step{Renderer: renderstep.Plain},
		Files: map[string]string{"a.yaml": someMap + aliases()},
	})
}

const (
	someMap   = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	someChart = "{apiVersion: v2, name: a, version: 1.0.0}"
)

// aliases returns a text of a few hundred bytes that stands for a thousand million values.
func aliases() string {
	text := "b0: &b0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		text += fmt.Sprintf("b%d: &b%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*b%d, ", i-1), 10), ", "))
	}
	return text
}

func helmAttacks() []Attack {
	attack := func(name string, files map[string]string) Attack {
		files["Chart.yaml"] = someChart
		return Attack{Name: "helm: " + name, Step: renderstep.Step{Renderer: renderstep.Helm}, Files: files}
	}
	template := func(name, text string) Attack {
		return attack(name, map[string]string{"templates/a.yaml": text})
	}
	return []Attack{
		template("a list of a thousand million", `{{ range until 1000000000 }}x{{ end }}`),
		template("an output of 1 GB", `{{ range until 1000 }}{{ repeat 1000000 "x" }}{{ end }}`),
		template("a text of 2 GB", `{{ repeat 2000000000 "x" }}`),
		template("a value that doubles", `{{ $x := "xxxxxxxx" }}{{ range until 40 }}{{ $x = print $x $x }}{{ end }}`),
		template("an error of 100 MB", `{{ fail (repeat 100000000 "x") }}`),
		template("loops in loops", `{{ range until 100000 }}{{ range until 100000 }}{{ $_ := sha256sum "x" }}{{ end }}{{ end }}`),
		template("a recursion with many branches",
			`{{ define "x" }}{{ if . }}{{ include "x" (sub . 1 | int) }}{{ include "x" (sub . 1 | int) }}{{ end }}{{ end }}{{ include "x" 60 }}`),
		template("a template that includes itself", `{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}`),
		template("a template that runs itself", `{{ $x := "{{ tpl .x . }}" }}{{ tpl $x (dict "x" $x "Template" .Template) }}`),
		attack("values of aliases", map[string]string{"values.yaml": aliases()}),
		attack("an archive of zeros", map[string]string{"charts/sub.tgz": archive(256 << 20)}),
		attack("an archive in archives", map[string]string{"charts/sub.tgz": nested(archive(64<<20), 6)}),
	}
}

func kustomizeAttacks() []Attack {
	attack := func(name, folder string, files map[string]string) Attack {
		return Attack{Name: "kustomize: " + name, Step: renderstep.Step{Path: folder, Renderer: renderstep.Kustomize}, Files: files}
	}
	// Each level holds the objects of the one below twice.
	levels := map[string]string{"00/a.yaml": someMap + "data: {k: '" + strings.Repeat("x", 256<<10) + "'}\n", "00/kustomization.yaml": "resources: [a.yaml]\n"}
	const count = 12
	for i := 1; i <= count; i++ {
		for _, side := range []string{"l", "r"} {
			levels[fmt.Sprintf("%02d%s/kustomization.yaml", i, side)] = fmt.Sprintf("nameSuffix: %s\nresources: [../%02d]\n", side, i-1)
		}
		levels[fmt.Sprintf("%02d/kustomization.yaml", i)] = fmt.Sprintf("resources: [../%02dl, ../%02dr]\n", i, i)
	}
	// Kustomize compares every object with every other.
	var many strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&many, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\n"+
			"spec: {volumes: [{name: v, configMap: {name: c%d}}], containers: [{name: a, image: b}]}\n---\n", i, i, i)
	}
	return []Attack{
		attack("bases that double", fmt.Sprintf("%02d", count), levels),
		attack("objects that name each other", "", map[string]string{"kustomization.yaml": "namePrefix: my-\nresources: [a.yaml]\n", "a.yaml": many.String()}),
		attack("aliases of aliases", "", map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": someMap + aliases()}),
	}
}

// programAttacks are programs that never end, or whose values grow.
func programAttacks() []Attack {
	doubled := func(first, next string, lines int) string {
		for i := range lines {
			first += "\n" + fmt.Sprintf(next, i+1, i, i)
		}
		return first
	}
	var all []Attack
	add := func(renderer renderstep.Renderer, file, name, program string) {
		all = append(all, Attack{Name: string(renderer) + ": " + name, Step: renderstep.Step{Renderer: renderer}, Files: map[string]string{file: program}})
	}
	const main, template, source = "main.jsonnet", "a.yaml.liquid", "a.cue"
	add(renderstep.Jsonnet, main, "a loop of tail calls", "local f(n) = f(n + 1) tailstrict; {kind: 'A', n: f(0)}")
	add(renderstep.Jsonnet, main, "an endless recursion", "local f(n) = 1 + f(n + 1); {kind: 'A', n: f(0)}")
	add(renderstep.Jsonnet, main, "loops in loops", "local r = std.range(1, 3000); [0 for a in r for b in r for c in r if false]")
	add(renderstep.Jsonnet, main, "a text of 10 GB", "{kind: 'A', n: std.length(std.join(std.repeat('x', 1000000), std.range(1, 10000)))}")
	add(renderstep.Jsonnet, main, "source that is a million deep", strings.Repeat("[", 1_000_000))
	add(renderstep.Liquid, template, "an empty loop", "{% for i in (1..99999999999) %}{% endfor %}")
	add(renderstep.Liquid, template, "an output without an end", "{% for i in (1..99999999999) %}xxxxxxxxxxxxxxxx{% endfor %}")
	add(renderstep.Liquid, template, "captures of captures",
		"{% assign a = 'aaaaaaaa' %}{% for i in (1..99) %}{% capture a %}{{ a }}{{ a }}{% endcapture %}{% endfor %}")
	add(renderstep.CUE, source, "lists that double", "package a\n"+doubled("a0: [1, 2]", "a%d: [a%d, a%d]", 60)+"\nobjects: a60")
	add(renderstep.CUE, source, "texts that double",
		"package a\n"+doubled("a0: \"aaaaaaaa\"", "a%d: \"\\(a%d)\\(a%d)\"", 60)+"\nobjects: {kind: \"A\", a: a60}")
	return all
}

// wasmAttacks are modules in their binary form.
func wasmAttacks() []Attack {
	section := func(id byte, content string) string { return string([]byte{id, byte(len(content))}) + content }
	const (
		magic   = "\x00asm\x01\x00\x00\x00"
		noTypes = "\x01\x60\x00\x00"                             // the type of _start
		start   = "\x01\x06_start\x00\x00"                       // exports function 0
		empty   = "\x0b"                                         // the end of a block or a function
		jump    = "\x0c\x00"                                     // to the beginning of the loop
		loop    = "\x03\x40"                                     // without a result
		grow    = "\x41\x10\x40\x00\x1a"                         // the memory, by 16 pages
		one     = "\x01\x00"                                     // one function, of type 0
		write   = "\x41\x01\x41\x00\x41\x01\x41\x08\x10\x00\x1a" // fd_write(1, 0, 1, 8)
	)
	function := func(instructions string) string {
		return "\x01" + string([]byte{byte(len(instructions) + 1)}) + "\x00" + instructions
	}
	endless := func(body string) string { return function(loop + body + jump + empty + empty) }
	attack := func(name, module string) Attack {
		return Attack{
			Name: "wasm: " + name, Files: map[string]string{"m.wasm": magic + module},
			Step: renderstep.Step{Renderer: renderstep.WASM, WASM: &renderstep.WASMOptions{Module: "m.wasm"}},
		}
	}
	return []Attack{
		attack("a loop", section(1, noTypes)+section(3, one)+section(7, start)+section(10, endless(""))),
		attack("memory that grows", section(1, noTypes)+section(3, one)+section(5, "\x01\x00\x01")+section(7, start)+section(10, endless(grow))),
		attack("a table that grows", section(1, noTypes)+section(3, one)+section(4, "\x01\x70\x00\x00")+section(7, start)+
			section(10, endless("\xd0\x70\x41\x80\x80\x80\x20\xfc\x0f\x00\x1a"))),
		attack("an output without an end", section(1, "\x02\x60\x04\x7f\x7f\x7f\x7f\x01\x7f\x60\x00\x00")+
			section(2, "\x01\x16wasi_snapshot_preview1\x08fd_write\x00\x00")+section(3, "\x01\x01")+section(5, "\x01\x00\x02")+
			section(7, "\x02\x06_start\x00\x01\x06memory\x02\x00")+section(10, endless(write))+
			section(11, "\x01\x00\x41\x00\x0b\x08\x10\x00\x00\x00\x00\x00\x01\x00")),
	}
}

// archive returns a packed chart with a file of zeros, of which a thousandth is left.
func archive(zeros int64) string {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	// Writing to memory does not fail.
	_ = w.WriteHeader(&tar.Header{Name: "sub/Chart.yaml", Mode: 0o644, Size: int64(len(someChart))})
	_, _ = w.Write([]byte(someChart))
	_ = w.WriteHeader(&tar.Header{Name: "sub/zeros", Mode: 0o644, Size: zeros})
	for block := make([]byte, 1<<20); zeros > 0; zeros -= int64(len(block)) {
		_, _ = w.Write(block[:min(zeros, int64(len(block)))])
	}
	_ = w.Close()
	_ = z.Close()
	return packed.String()
}

// nested packs an archive into charts that hold it eight times, and so on.
func nested(inner string, levels int) string {
	for range levels {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		w := tar.NewWriter(z)
		_ = w.WriteHeader(&tar.Header{Name: "sub/Chart.yaml", Mode: 0o644, Size: int64(len(someChart))})
		_, _ = w.Write([]byte(someChart))
		for i := range 8 {
			_ = w.WriteHeader(&tar.Header{Name: fmt.Sprintf("sub/charts/%d.tgz", i), Mode: 0o644, Size: int64(len(inner))})
			_, _ = w.Write([]byte(inner))
		}
		_ = w.Close()
		_ = z.Close()
		inner = packed.String()
	}
	return inner
}
