// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package supply finds or makes the files of a local control plane in the cheapest way that works:
// in a folder that the user names, in the cache of an earlier start, on the PATH, in upstream's
// releases, and at last by a build from source. Each file is asked of the ways in that order, and a way that does not have it
// gives its reason.
//
// It does not mix what cannot work together: version.go lists the versions that do.
package supply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/runtime/localkube"
)

// Params describes where a Supply looks.
type Params struct {
	Dir       string // a folder with binaries, which must fit; empty means none
	SourceDir string // tools/kube of a checkout, or localkube.OwnSource; empty means that nothing can be built
	CacheDir  string // as localkube.BuildParams.CacheDir
	GoCommand string // as localkube.BuildParams.GoCommand
	LookPath  func(file string) (string, error)
	Releases  Releases // nil means that nothing is downloaded

	// EtcdData is the newest version of etcd that wrote the data to start with, as
	// localkube.EtcdVersion returns it. An older etcd cannot read it. Empty means that there is none.
	EtcdData string

	Report   func(Origin)      // called for each way that was tried, without repetitions
	Progress func(line string) // called with short lines of progress
}

// Releases downloads files of upstream's releases, and keeps them.
type Releases interface {
	// Has reports whether there is a release with the file for this platform.
	Has(file string) bool
	// Stored returns the path of a file that was downloaded before.
	Stored(file string) (path string, ok bool)
	// Get returns the path of a file, and downloads it if it is not stored. It returns only what it
	// has verified, and ends with ctx. Calls for files that come together cost one download.
	Get(ctx context.Context, file string) (path string, err error)
}

// Origin is the outcome of one way for the files that no earlier way had.
type Origin struct {
	Way   string
	Files []string // that it provides; empty if it was not taken
	Why   string   // the reason why it does not provide the others; empty if it provides all
}

// String returns one line for people.
func (o Origin) String() string {
	text := o.Way + ": "
	if len(o.Files) > 0 {
		text += "takes " + strings.Join(o.Files, ", ")
		if o.Why != "" {
			text += "; "
		}
	}
	return text + o.Why
}

// MissingError means that no way provides some files.
type MissingError struct {
	Files []string
	Tried []Origin // without the ways behind the order's end
}

// Error implements error.
func (e *MissingError) Error() string {
	reasons := make([]string, len(e.Tried))
	for i, o := range e.Tried {
		reasons[i] = o.Way + ": " + o.Why
	}
	return fmt.Sprintf("no way to get %s (%s)", strings.Join(e.Files, ", "), strings.Join(reasons, "; "))
}

// way is one way to get files.
type way interface {
	// name identifies the way in reports.
	name() string
	// could reports whether the way may provide a file, without effort. It may be wrong.
	could(file string) bool
	// provide returns the paths of the files that this way has or can make, and the reason why it does
	// not provide the others. An error ends the search: a later way would hide a mistake of the user,
	// or cost as much.
	provide(ctx context.Context, files []string) (paths map[string]string, why string, err error)
}

// Supply gets files. Its methods are safe for concurrent use.
type Supply struct {
	ways   []way
	report func(Origin)

	turn     chan struct{} // holds a value while one caller gets files
	found    localkube.Binaries
	reported []string // lines, so that none is repeated
}

// New returns a Supply.
func New(p Params) *Supply {
	s := &Supply{report: p.Report, turn: make(chan struct{}, 1)}
	if p.Report == nil {
		s.report = func(Origin) {}
	}
	probe := prober{etcdData: p.EtcdData}
	s.ways = []way{
		folder{dir: p.Dir, probe: probe},
		earlier{params: p, probe: probe},
		searchPath{look: p.LookPath, probe: probe},
		containers{},
		download{releases: p.Releases, probe: probe},
		build{params: p, probe: probe},
	}
	return s
}

// Servers returns the names of the files that deliver: objects are stored without the others.
func Servers() []string { return []string{localkube.EtcdFile, localkube.APIServerFile} }

// Rest returns the names of the other files, in the order in which they are needed: kubectl is for
// people alone.
func Rest() []string {
	return []string{
		localkube.ControllerManagerFile, localkube.SchedulerFile, localkube.KwokFile, localkube.KubectlFile,
	}
}

// Check returns a *MissingError if no way could provide some files, and an error if the folder that
// the user names does not fit. It makes nothing.
func (s *Supply) Check(ctx context.Context) error {
	named := s.ways[0]
	if _, _, err := named.provide(ctx, append(Servers(), Rest()...)); err != nil {
		return fmt.Errorf("%s: %w", named.name(), err)
	}
	missing := slices.DeleteFunc(append(Servers(), Rest()...), func(file string) bool {
		return slices.ContainsFunc(s.ways, func(w way) bool { return w.could(file) })
	})
	if len(missing) == 0 {
		return nil
	}
	e := &MissingError{Files: missing}
	for _, w := range s.ways {
		_, why, err := w.provide(ctx, missing)
		if err != nil {
			return err
		}
		e.Tried = append(e.Tried, Origin{Way: w.name(), Why: why})
	}
	return e
}

// Get returns the paths of the named files, and of the files of earlier calls. One caller works and
// the others wait for it. The error is a *MissingError if no way provides a file.
func (s *Supply) Get(ctx context.Context, files []string) (localkube.Binaries, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return localkube.Binaries{}, ctx.Err()
	}
	wanted := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return *s.found.Path(file) != "" })
	var tried []Origin
	for _, w := range s.ways {
		if len(wanted) == 0 {
			break
		}
		paths, why, err := w.provide(ctx, wanted)
		if err != nil {
			return localkube.Binaries{}, fmt.Errorf("%s: %w", w.name(), err)
		}
		taken := s.take(wanted, paths)
		wanted = slices.DeleteFunc(wanted, func(file string) bool { return slices.Contains(taken, file) })
		origin := Origin{Way: w.name(), Files: taken, Why: why}
		tried = append(tried, origin)
		s.tell(origin)
	}
	if len(wanted) > 0 {
		return localkube.Binaries{}, &MissingError{Files: wanted, Tried: tried}
	}
	return s.found, nil
}

// take stores the paths of the wanted files, and returns their names in the order of wanted.
func (s *Supply) take(wanted []string, paths map[string]string) (taken []string) {
	for _, file := range wanted {
		if path := paths[file]; path != "" {
			*s.found.Path(file) = path
			taken = append(taken, file)
		}
	}
	return taken
}

func (s *Supply) tell(o Origin) {
	if line := o.String(); !slices.Contains(s.reported, line) {
		s.reported = append(s.reported, line)
		s.report(o)
	}
}

// reasons collects why files are not provided.
type reasons struct {
	missing  []string
	unpinned []string          // no release with them is pinned
	other    map[string]string // by file
}

func (r *reasons) add(file, why string) {
	if r.other == nil {
		r.other = map[string]string{}
	}
	r.other[file] = why
}

// text returns the reasons in one line.
func (r *reasons) text() string {
	var texts []string
	if len(r.missing) > 0 {
		texts = append(texts, "without "+strings.Join(r.missing, ", "))
	}
	if len(r.unpinned) > 0 {
		texts = append(texts, "no pinned release of "+strings.Join(r.unpinned, ", "))
	}
	for _, file := range slices.Sorted(maps.Keys(r.other)) {
		texts = append(texts, r.other[file])
	}
	return strings.Join(texts, "; ")
}
