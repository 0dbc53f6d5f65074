// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// maxAdvisory bounds one advisory, in bytes.
const maxAdvisory = 4 << 20

// Advisory holds the fields that this package needs of an advisory in OSV's format, as in the Go
// vulnerability database.
type Advisory struct {
	ID        string     `json:"id"`
	Aliases   []string   `json:"aliases"`
	Summary   string     `json:"summary"`
	Withdrawn string     `json:"withdrawn"`
	Affected  []Affected `json:"affected"`
}

// Affected describes the versions of one module that an advisory affects.
type Affected struct {
	Package struct {
		// Name is a module path, or "stdlib" or "toolchain".
		Name      string `json:"name"`
		Ecosystem string `json:"ecosystem"`
	} `json:"package"`
	Ranges   []Range `json:"ranges"`
	Specific struct {
		// Imports are the affected packages. Empty: all packages of the module.
		Imports []struct {
			Path string `json:"path"`
		} `json:"imports"`
	} `json:"ecosystem_specific"`
}

// Range is a set of versions, described by events.
type Range struct {
	Type   string  `json:"type"`
	Events []Event `json:"events"`
}

// Event is a version from which a module is affected, or no longer affected. Versions have no
// leading "v"; "0" precedes all versions.
type Event struct {
	Introduced string `json:"introduced"`
	Fixed      string `json:"fixed"`
}

// contains reports whether the version (with its "v") is in the range.
func (r Range) contains(version string) bool {
	if r.Type != "SEMVER" {
		return false
	}
	events := slices.Clone(r.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return semver.Compare(a.version(), b.version()) })
	affected := false
	for _, e := range events {
		if semver.Compare(version, e.version()) < 0 {
			break
		}
		affected = e.Introduced != ""
	}
	return affected
}

func (e Event) version() string {
	if v := e.Introduced + e.Fixed; v != "0" {
		return "v" + v
	}
	return "v0.0.0-0" // precedes every version
}

// Module is a module that a program is built from. The standard library is the module "stdlib",
// with the version of Go.
type Module struct {
	Path    string
	Version string
	// Packages are the packages of the module that the program contains.
	Packages []string
}

// Finding is an advisory that affects the version of a module.
type Finding struct {
	ID, Summary string
	Module      Module
	// Packages are the affected packages that the program contains; empty if the advisory affects
	// the whole module.
	Packages []string
	// Fixed is the lowest later version with a fix; empty if there is none.
	Fixed string
}

// Check returns the advisories that affect the modules, sorted by ID. It omits an advisory about
// packages that the program does not contain. It does not check whether the program calls the
// affected functions.
func Check(advisories []Advisory, modules []Module) []Finding {
	byPath := make(map[string]Module, len(modules))
	for _, m := range modules {
		byPath[m.Path] = m
	}
	var findings []Finding
	for _, a := range advisories {
		if a.Withdrawn != "" {
			continue
		}
		for _, affected := range a.Affected {
			m, ok := byPath[affected.Package.Name]
			if !ok || (affected.Package.Ecosystem != "" && affected.Package.Ecosystem != "Go") {
				continue
			}
			if f, ok := check(a, affected, m); ok {
				findings = append(findings, f)
			}
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return strings.Compare(a.ID+" "+a.Module.Path, b.ID+" "+b.Module.Path)
	})
	return findings
}

func check(a Advisory, affected Affected, m Module) (Finding, bool) {
	f := Finding{ID: a.ID, Summary: a.Summary, Module: m}
	if !slices.ContainsFunc(affected.Ranges, func(r Range) bool { return r.contains(m.Version) }) {
		return f, false
	}
	for _, i := range affected.Specific.Imports {
		if slices.Contains(m.Packages, i.Path) {
			f.Packages = append(f.Packages, i.Path)
		}
	}
	if len(affected.Specific.Imports) > 0 && len(f.Packages) == 0 {
		return f, false
	}
	for _, r := range affected.Ranges {
		for _, e := range r.Events {
			if v := e.version(); e.Fixed != "" && semver.Compare(v, m.Version) > 0 && (f.Fixed == "" || semver.Compare(v, f.Fixed) < 0) {
				f.Fixed = v
			}
		}
	}
	return f, true
}

// errNoAdvisories means that a location holds no advisories. It is then not a database, and a check
// against it would find nothing.
var errNoAdvisories = errors.New("holds no advisories in OSV's format")

// ReadDatabase reads every advisory below a folder or in a zip file, in the layout of
// https://vuln.go.dev/vulndb.zip. The location is a path or a file:// URL.
func ReadDatabase(location string) ([]Advisory, error) {
	name := strings.TrimPrefix(location, "file://")
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("open database of advisories: %w", err)
	}
	database := os.DirFS(name)
	if !info.IsDir() {
		archive, err := zip.OpenReader(name)
		if err != nil {
			return nil, fmt.Errorf("open database of advisories %s: %w", name, err)
		}
		defer func() { _ = archive.Close() }()
		database = archive
	}
	advisories, err := readAll(database)
	if err != nil {
		return nil, fmt.Errorf("read database of advisories %s: %w", name, err)
	}
	return advisories, nil
}

func readAll(database fs.FS) ([]Advisory, error) {
	var advisories []Advisory
	err := fs.WalkDir(database, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".json" || path.Base(path.Dir(name)) == "index" {
			return err
		}
		f, err := database.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		content, err := io.ReadAll(io.LimitReader(f, maxAdvisory))
		if err != nil {
			return err
		}
		var a Advisory
		if err := json.Unmarshal(content, &a); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if a.ID != "" {
			advisories = append(advisories, a)
		}
		return nil
	})
	if err == nil && len(advisories) == 0 {
		err = errNoAdvisories
	}
	return advisories, err
}
