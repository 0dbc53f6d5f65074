// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/kustomize"
)

// recording rejects requests, and counts them.
type recording struct{ requests atomic.Int64 }

// RoundTrip implements http.RoundTripper.
func (r *recording) RoundTrip(*http.Request) (*http.Response, error) {
	r.requests.Add(1)
	return nil, errors.New("refused")
}

// recordingDisk records the files outside the bundle that kustomize reads. Asking for a file that
// the file system does not have is harmless.
type recordingDisk struct {
	filesys.FileSystem
	outside []string
}

// ReadFile implements filesys.FileSystem.
func (d *recordingDisk) ReadFile(name string) ([]byte, error) {
	content, err := d.FileSystem.ReadFile(name)
	if err == nil && !strings.HasPrefix(name, "/bundle/") {
		d.outside = append(d.outside, name)
	}
	return content, err
}

// FuzzReferences compares the check of kustomizations with the library. For content that passes the
// check, kustomize must not dial, look for git, or read outside the bundle. Two files are fuzzed: a
// kustomization, and a file that it may name in any field.
func FuzzReferences(f *testing.F) {
	for _, content := range remoteFiles() {
		var first, second string
		for name, text := range content {
			if strings.Contains(name, "ustomization") && !strings.Contains(name, "/") {
				first = text
			} else {
				second = text
			}
		}
		first, second = strings.ReplaceAll(first, "URLREST", "://h.test/x"), strings.ReplaceAll(second, "URLREST", "://h.test/x")
		f.Add(strings.ReplaceAll(first, "URL", "http://h.test/x"), strings.ReplaceAll(second, "URL", "http://h.test/x"))
	}
	for _, target := range []string{"git@h.test:a/b", "git::./a", "file:///a", "u@h/a/b", "github.com/a/b", "../a", "/a", "./b", "b/../b", "g.yaml"} {
		f.Add("resources: ['"+target+"']\n", "")
		f.Add("components: ["+target+"]\ngenerators: [g.yaml]\n", "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nfiles: ["+target+"]\n")
	}
	transport := &recording{}
	http.DefaultTransport = transport
	if err := os.Unsetenv("PATH"); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		content := map[string][]byte{
			"kustomization.yaml": []byte(first), "g.yaml": []byte(second), "b/kustomization.yaml": []byte(second), "b/a.yaml": []byte(configMap("b")),
			"a.yaml": []byte(configMap("a")),
		}
		if kustomize.CheckReferences(render.NewFiles(content), "") != nil {
			return
		}
		disk := &recordingDisk{FileSystem: kustomize.FileSystem(render.NewFiles(content))}
		before := transport.requests.Load()
		err := runKustomize(disk)
		if n := transport.requests.Load() - before; n > 0 {
			t.Errorf("%d requests; kustomize says %v", n, err)
		}
		if err != nil && strings.Contains(err.Error(), "no 'git' program on path") {
			t.Errorf("looks for git: %v", err)
		}
		for _, name := range disk.outside {
			t.Errorf("reads %s", name)
		}
	})
}

func runKustomize(disk filesys.FileSystem) (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			err = errors.New("panic")
		}
	}()
	o := krusty.MakeDefaultOptions()
	o.LoadRestrictions = types.LoadRestrictionsNone
	_, err = krusty.MakeKustomizer(o).Run(disk, "/bundle")
	return err
}

// FuzzBuilds builds any kustomization with any file beside it twice. Errors are of the content, and
// results are equal.
func FuzzBuilds(f *testing.F) {
	for _, first := range []string{
		"resources: [a.yaml, b]\nnamePrefix: x-\nnamespace: apps\n", "configMapGenerator: [{name: g, files: [g.yaml]}]\ngeneratorOptions: {labels: {a: b}}\n",
		"resources: [a.yaml]\npatches: [{path: g.yaml}]\n", "resources: [a.yaml]\ntransformers: [g.yaml]\n", "resources: [a.yaml]\nreplacements: [{path: g.yaml}]\n",
		"resources: [a.yaml]\nlabels: [{pairs: {a: b}, includeSelectors: true}]\nimages: [{name: b, newTag: c}]\n", "components: [b]\nresources: [a.yaml]\n",
	} {
		f.Add(first, configMap("a")+"data: {a: b}\n")
		f.Add(first, "resources: [a.yaml]\n")
	}
	f.Add("resources: [g.yaml]\nvars: [{name: V, objref: {kind: ConfigMap, name: a, apiVersion: v1}}]\n", configMap("a")+"data: {a: $(V)}\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		if len(first)+len(second) > 4<<10 {
			return
		}
		tree := files(map[string]string{
			"kustomization.yaml": first, "g.yaml": second, "b/kustomization.yaml": second, "b/a.yaml": configMap("b"), "a.yaml": configMap("a"),
		})
		built, err := build(t, tree, "")
		if problem, limit := new(render.Error), new(render.LimitError); err != nil && !errors.As(err, &problem) && !errors.As(err, &limit) {
			t.Errorf("got %v, want an error about the content", err)
		}
		again, errAgain := build(t, tree, "")
		if diff := cmp.Diff(built, again); diff != "" || (err == nil) != (errAgain == nil) {
			t.Errorf("another build (-first +second), %v and %v:\n%s", err, errAgain, diff)
		}
	})
}
