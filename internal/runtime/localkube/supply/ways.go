// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/leatdev/leat/internal/runtime/localkube"
)

// folder is the folder that the user names. Its files must fit: taking others instead would hide
// the mistake.
type folder struct {
	dir   string
	probe prober
}

func (w folder) name() string { return "--kubernetes-binaries" }

func (w folder) could(file string) bool { return w.dir != "" && isFile(filepath.Join(w.dir, file)) }

func (w folder) provide(ctx context.Context, files []string) (map[string]string, string, error) {
	if w.dir == "" {
		return nil, "not set", nil
	}
	dir, err := filepath.Abs(w.dir)
	if err != nil {
		return nil, "", err
	}
	if err := w.check(dir); err != nil {
		return nil, "", err
	}
	paths, why := map[string]string{}, reasons{}
	for _, file := range files {
		path := filepath.Join(dir, file)
		if !isFile(path) {
			why.missing = append(why.missing, file)
			continue
		}
		if misfit := w.probe.misfit(ctx, file, path); misfit != "" {
			return nil, "", errors.New(misfit)
		}
		paths[file] = path
	}
	return paths, why.text(), nil
}

// check returns an error if the folder has nothing that a control plane consists of.
func (w folder) check(dir string) error {
	for _, file := range append(Servers(), Rest()...) {
		if isFile(filepath.Join(dir, file)) {
			return nil
		}
	}
	return fmt.Errorf("%s has none of the files of a control plane, such as %s", dir, localkube.APIServerFile)
}

// earlier is the cache of builds and downloads.
type earlier struct {
	params Params
	probe  prober
}

func (w earlier) name() string { return "earlier start" }

func (w earlier) could(file string) bool {
	built, err := localkube.Built(buildParams(w.params, nil))
	_, stored := w.stored(file)
	return err == nil && *built.Path(file) != "" || stored
}

func (w earlier) stored(file string) (string, bool) {
	if w.params.Releases == nil {
		return "", false
	}
	return w.params.Releases.Stored(file)
}

func (w earlier) provide(ctx context.Context, files []string) (map[string]string, string, error) {
	built, err := localkube.Built(buildParams(w.params, nil))
	if err != nil {
		return nil, "", err
	}
	paths, why := map[string]string{}, reasons{}
	for _, file := range files {
		path, misfit := *built.Path(file), ""
		if path != "" {
			misfit = w.probe.misfitBuilt(file, path)
		}
		if stored, ok := w.stored(file); ok && (path == "" || misfit != "") {
			path, misfit = stored, w.probe.misfitPinned(ctx, file, stored)
		}
		switch {
		case path == "":
			why.missing = append(why.missing, file)
		case misfit != "":
			why.add(file, misfit)
		default:
			paths[file] = path
		}
	}
	return paths, why.text(), nil
}

// searchPath finds the system's installed files.
type searchPath struct {
	look  func(file string) (string, error)
	probe prober
}

func (w searchPath) name() string { return "PATH" }

func (w searchPath) could(file string) bool {
	_, err := w.find(file)
	return err == nil
}

// find returns the absolute path of a program.
func (w searchPath) find(file string) (string, error) {
	if w.look == nil {
		return "", exec.ErrNotFound
	}
	path, err := w.look(file)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

func (w searchPath) provide(ctx context.Context, files []string) (map[string]string, string, error) {
	paths, why := map[string]string{}, reasons{}
	for _, file := range files {
		path, err := w.find(file)
		if err != nil {
			why.missing = append(why.missing, file)
			continue
		}
		if misfit := w.probe.misfit(ctx, file, path); misfit != "" {
			why.add(file, misfit)
			continue
		}
		paths[file] = path
	}
	return paths, why.text(), nil
}

// containers is a way that only a person takes: with --kind, leat up needs no files. It is here so
// that its line comes before the lines of slow ways.
type containers struct{}

func (containers) name() string { return "kind" }

func (containers) could(string) bool { return false }

func (containers) provide(context.Context, []string) (map[string]string, string, error) {
	return nil, "not requested; --kind runs the cluster in containers", nil
}

// download is upstream's releases. Whatever fails there, a build may still work.
type download struct {
	releases Releases
	probe    prober
}

func (w download) name() string { return "download" }

func (w download) could(file string) bool { return w.releases != nil && w.releases.Has(file) }

func (w download) provide(ctx context.Context, files []string) (map[string]string, string, error) {
	if w.releases == nil {
		return nil, "switched off", nil
	}
	paths, why := map[string]string{}, reasons{}
	failed := false
	for _, file := range files {
		if !w.releases.Has(file) {
			why.unpinned = append(why.unpinned, file)
			continue
		}
		if failed { // the other files are in the same archive, or at a server as far away
			why.missing = append(why.missing, file)
			continue
		}
		path, err := w.releases.Get(ctx, file)
		switch {
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case err != nil:
			failed = true
			why.add(file, err.Error())
			continue
		}
		if misfit := w.probe.misfitPinned(ctx, file, path); misfit != "" {
			why.add(file, misfit)
			continue
		}
		paths[file] = path
	}
	return paths, why.text(), nil
}

// build compiles from the pinned modules. It is the last way, so its failure is the failure of all.
type build struct {
	params Params
	probe  prober
}

func (w build) name() string { return "build" }

func (w build) could(string) bool { return w.obstacle() == "" }

// obstacle returns why nothing can be built, or "".
func (w build) obstacle() string {
	if w.params.SourceDir == "" {
		return "no folder to build from"
	}
	if _, err := exec.LookPath(cmp.Or(w.params.GoCommand, "go")); err != nil {
		return "no go command"
	}
	return ""
}

func (w build) provide(ctx context.Context, files []string) (map[string]string, string, error) {
	if obstacle := w.obstacle(); obstacle != "" {
		return nil, obstacle, nil
	}
	built, err := localkube.Build(ctx, buildParams(w.params, files))
	if err != nil {
		return nil, "", err
	}
	paths, why := map[string]string{}, reasons{}
	for _, file := range files {
		path := *built.Path(file)
		if misfit := w.probe.misfitBuilt(file, path); misfit != "" {
			why.add(file, misfit)
			continue
		}
		paths[file] = path
	}
	return paths, why.text(), nil
}

func buildParams(p Params, only []string) localkube.BuildParams {
	return localkube.BuildParams{
		SourceDir: p.SourceDir, CacheDir: p.CacheDir, GoCommand: p.GoCommand, Only: only, Progress: p.Progress,
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
