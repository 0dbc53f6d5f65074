// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// The names in the folder of a mirror.
const (
	stateFile    = "state.json"
	freshFile    = "fresh.json"
	examinedFile = "examined.json"

	generationPrefix = "gen-"
	temporaryPrefix  = "tmp-"
	// temporaryPack begins the names of files that are being written beside packs, as it does for
	// the git command.
	temporaryPack = "tmp_"
)

var (
	// packForm are the files of packs, which never change under their names. Nothing else travels
	// between replicas. It keeps a name that came from elsewhere from leaving the folder.
	packForm = regexp.MustCompile(`^pack-([0-9a-f]{40}|[0-9a-f]{64})\.(pack|idx|rev)$`)
	// generationForm does so for the names of generations.
	generationForm = regexp.MustCompile(`^` + generationPrefix + `[A-Za-z0-9]+$`)
)

func packFolder(generation string) string { return filepath.Join(generation, "objects", "pack") }

// config is the content of the configuration file of a generation. Both are fixed when the
// generation is made: mirrors of another kind need another generation.
type config struct {
	isSHA256  bool // how objects are named
	isPartial bool // blobs may be absent
}

const (
	// partialMark is set in the configuration of a partial generation. It is a word of ours: on seeing
	// git's own mark of a partial clone, the git command would ask an upstream for missing objects,
	// which nothing but the owner of the lease may do.
	partialMark = "[leat]\n\tpartial = true\n"
	sha256Mark  = "[extensions]\n\tobjectformat = sha256\n"

	digitsSHA256 = 64
)

// configFor returns what a generation has to be like to take c. isNamed is false where c names no
// object: then isSHA256 does not matter.
func configFor(c mirror.Content) (cfg config, isNamed bool) {
	id := c.Head // ids are all of one kind
	if len(c.Refs) > 0 {
		id = c.Refs[0].Object
	}
	return config{isSHA256: len(id) == digitsSHA256, isPartial: c.Partial}, id != ""
}

func readConfig(dir string) (config, error) {
	text, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil {
		return config{}, fmt.Errorf("read mirror configuration: %w", err)
	}
	return config{
		isSHA256: strings.Contains(string(text), "sha256"), isPartial: strings.Contains(string(text), partialMark),
	}, nil
}

// canTake reports whether the generation in dir can take c. A generation that cannot be read takes
// nothing.
func canTake(dir string, c mirror.Content) bool {
	want, isNamed := configFor(c)
	got, err := readConfig(dir)
	return err == nil && got.isPartial == want.isPartial && (!isNamed || got.isSHA256 == want.isSHA256)
}

// makeGeneration makes dir an empty bare repository, with what the git command wants to see and no
// more.
func makeGeneration(dir string, cfg config) error {
	version, extensions := "0", ""
	if cfg.isSHA256 {
		version, extensions = "1", sha256Mark
	}
	if cfg.isPartial {
		extensions += partialMark
	}
	text := "[core]\n\trepositoryformatversion = " + version + "\n\tfilemode = true\n\tbare = true\n" + extensions
	return errors.Join(
		os.MkdirAll(packFolder(dir), 0o700),
		os.MkdirAll(filepath.Join(dir, "refs", "heads"), 0o700),
		os.WriteFile(filepath.Join(dir, "config"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600),
	)
}

// wholePacks lists the files of packs that are complete: the pack itself comes last to its name.
func wholePacks(dir string) ([]string, error) {
	entries, err := os.ReadDir(packFolder(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list packs: %w", err)
	}
	var names []string
	for _, e := range entries {
		stem := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
		isWhole := slices.ContainsFunc(entries, func(o os.DirEntry) bool { return o.Name() == stem+".pack" })
		if isWhole && packForm.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// syncPacks makes all packs durable and returns the sizes of their files. Packs are few and never
// change, so syncing one again costs next to nothing.
func syncPacks(dir string) (map[string]int64, error) {
	folder := packFolder(dir)
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	packs := make(map[string]int64, len(entries))
	for _, e := range entries {
		size, err := syncFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		packs[e.Name()] = size
	}
	if len(entries) == 0 {
		return packs, nil
	}
	return packs, durable.SyncDir(folder)
}

func syncFile(path string) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// sweep removes what a crash left behind: everything but the state files and the current
// generation, and in that one packs that were being written.
func sweep(home, generation string) error {
	entries, err := os.ReadDir(home)
	for _, e := range entries {
		switch e.Name() {
		case generation, stateFile, freshFile, examinedFile:
		default:
			err = errors.Join(err, os.RemoveAll(filepath.Join(home, e.Name())))
		}
	}
	return errors.Join(err, sweepPacks(filepath.Join(home, generation)))
}

// sweepPacks removes files of a generation that were not written to their end.
func sweepPacks(dir string) error {
	leftovers, err := filepath.Glob(filepath.Join(packFolder(dir), temporaryPack+"*"))
	for _, path := range leftovers {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
