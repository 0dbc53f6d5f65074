// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hubfiles_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/configstest"
	"github.com/leatdev/leat/services/distributor/internal/config/hubfiles"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func broken(dir string) func(*testing.T) func() {
	return func(t *testing.T) func() {
		t.Helper()
		must(t, os.Rename(dir, dir+".away"))
		return func() { must(t, os.Rename(dir+".away", dir)) }
	}
}

// TestFolders keeps an entry as a folder of files.
func TestFolders(t *testing.T) {
	t.Parallel()
	configstest.Run(t, func(t *testing.T) configstest.Place {
		dir := filepath.Join(t.TempDir(), "root")
		must(t, os.Mkdir(dir, 0o700))
		return configstest.Place{
			Backend: hubfiles.OpenFolder(dir), Path: func(name string) string { return name },
			Put: func(t *testing.T, path string, fields map[string]string) {
				t.Helper()
				must(t, os.RemoveAll(filepath.Join(dir, path)))
				must(t, os.Mkdir(filepath.Join(dir, path), 0o700))
				for name, value := range fields {
					must(t, os.WriteFile(filepath.Join(dir, path, name), []byte(value), 0o600))
				}
			},
			Remove: func(t *testing.T, path string) { t.Helper(); must(t, os.RemoveAll(filepath.Join(dir, path))) },
			Break:  broken(dir),
		}
	})
}

// TestJSONFiles keeps an entry as a file.
func TestJSONFiles(t *testing.T) {
	t.Parallel()
	configstest.Run(t, func(t *testing.T) configstest.Place {
		dir := filepath.Join(t.TempDir(), "root")
		must(t, os.Mkdir(dir, 0o700))
		return configstest.Place{
			Backend: hubfiles.OpenFolder(dir), Path: func(name string) string { return name + ".json" },
			Put: func(t *testing.T, path string, fields map[string]string) {
				t.Helper()
				content, err := json.Marshal(fields)
				must(t, err)
				must(t, os.WriteFile(filepath.Join(dir, path), content, 0o600))
			},
			Remove: func(t *testing.T, path string) { t.Helper(); must(t, os.Remove(filepath.Join(dir, path))) },
			Break:  broken(dir),
		}
	})
}

// TestOtherFiles reads a file as one value.
func TestOtherFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "banner.txt"), []byte("hello\n"), 0o600))
	entry, err := hubfiles.OpenFolder(dir).Read(t.Context(), "banner.txt")
	if err != nil || len(entry.Fields) != 1 || entry.Fields["content"].Reveal() != "hello\n" {
		t.Errorf("got %v, %v", entry, err)
	}
}

// TestFoldersOfKubernetes reads a volume while it is replaced as Kubernetes does that: a link leads to a
// new folder, and the former one is removed. Each answer is of one state, and the entry is never absent.
func TestFoldersOfKubernetes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	volume := filepath.Join(dir, "db")
	must(t, os.Mkdir(volume, 0o700))
	names, states := []string{"user", "password"}, 0
	replace := func() {
		states++
		folder := fmt.Sprintf("..state%d", states)
		must(t, os.Mkdir(filepath.Join(volume, folder), 0o700))
		for _, name := range names { // the same contents come back
			must(t, os.WriteFile(filepath.Join(volume, folder, name), []byte(fmt.Sprint(states%2)), 0o600))
		}
		next := filepath.Join(volume, "..next")
		must(t, os.Symlink(folder, next))
		must(t, os.Rename(next, filepath.Join(volume, "..data")))
		must(t, os.RemoveAll(filepath.Join(volume, fmt.Sprintf("..state%d", states-1))))
	}
	replace()
	for _, name := range names {
		must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)))
	}
	ctx, stop := context.WithCancel(t.Context())
	var replacing sync.WaitGroup
	replacing.Go(func() {
		for ctx.Err() == nil {
			replace()
		}
	})
	backend := hubfiles.OpenFolder(dir)
	for range 200 {
		entry, err := backend.Read(t.Context(), "db")
		if _, isAbsent := errors.AsType[*configs.NotFoundError](err); isAbsent {
			t.Errorf("got %v for an entry that was there all the time", err)
		}
		if err == nil && (len(entry.Fields) != 2 || entry.Fields["user"] != entry.Fields["password"]) {
			t.Errorf("got %d fields, a user of %s with a password of %s", len(entry.Fields), entry.Fields["user"].Reveal(), entry.Fields["password"].Reveal())
		}
	}
	stop()
	replacing.Wait()
	if entry, err := backend.Read(t.Context(), "db"); err != nil || len(entry.Fields) != 2 {
		t.Errorf("at rest: got %d fields, %v", len(entry.Fields), err)
	}
}

// TestSecFilesStayInTheirFolder reads by paths and links that lead elsewhere, and things that are
// not files.
func TestSecFilesStayInTheirFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "root")
	outside := filepath.Join(filepath.Dir(dir), "outside")
	must(t, os.MkdirAll(filepath.Join(dir, "links"), 0o700))
	must(t, os.MkdirAll(outside, 0o700))
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte(configstest.Canary), 0o600))
	for name, target := range map[string]string{"absolute": filepath.Join(outside, "secret"), "above": "../outside/secret", "folder": outside} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must(t, os.Symlink("../../outside/secret", filepath.Join(dir, "links", "secret")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	backend := hubfiles.OpenFolder(dir)
	for _, path := range []string{
		"absolute", "above", "folder", "folder/secret", "links", "links/secret", "pipe", "../outside/secret", "../outside", "/etc/passwd", "..", "",
		filepath.Join(outside, "secret"), "links/../../outside/secret", "a\x00b",
	} {
		entry, err := backend.Read(t.Context(), path)
		if err == nil || strings.Contains(err.Error(), configstest.Canary) {
			t.Errorf("%q: got %d fields and %v, want an error", path, len(entry.Fields), err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	backend := hubfiles.NewEnvironment([]string{
		"LEAT_CONFIG_SHOP__PASSWORD=x=1", "LEAT_CONFIG_SHOP__USER=ada", "LEAT_CONFIG_SHOP_EU__USER=eve", "LEAT_SERVICE_SECRET__A=" + configstest.Canary,
		"PATH=" + configstest.Canary, "LEAT_CONFIG_SHOPPING=" + configstest.Canary, "LEAT_CONFIG_SHOP__=" + configstest.Canary,
	})
	for path, want := range map[string]map[string]string{"shop": {"PASSWORD": "x=1", "USER": "ada"}, "shop-eu": {"USER": "eve"}} {
		entry, err := backend.Read(t.Context(), path)
		if err != nil || !entry.Equal(configs.Entry{Fields: configs.FieldsOf(want)}) {
			t.Errorf("%s: got %v, %v", path, entry, err)
		}
	}
	for _, path := range []string{"shopping", "SHOP", "shop_eu", "service-secret", "", "shop--eu", "config", "shop/eu"} {
		if _, err := backend.Read(t.Context(), path); err == nil {
			t.Errorf("%q: got an entry", path)
		} else if _, ok := errors.AsType[*configs.NotFoundError](err); !ok {
			t.Errorf("%q: got %v, want that there is no such entry", path, err)
		}
	}
}
