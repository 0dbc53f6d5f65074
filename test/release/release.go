// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package release makes a release of a commit into one folder: the programs, images and charts, an
// inventory of each program and image, the provenance of all, and their checksums. It needs Go and
// Git, the Go module proxy, and no container engine.
//
// The same commit and the same version of Go give the same bytes, in any folder of any machine. The
// Dockerfile defines how programs are compiled and the content of images, see package recipe; so
// the images equal the ones that an engine makes of it. Nothing is signed.
package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatdev/leat/test/charts"
	"github.com/leatdev/leat/test/supply"
)

// Params selects what to release.
type Params struct {
	// Top is the root of a checkout without changes.
	Top string
	// Out is the folder of the release. Make replaces the release that is in it, and refuses a folder
	// with anything else.
	Out     string
	Version Version
	// Programs and Platforms limit the release to some of Programs and Platforms. Empty: all of them.
	Programs  []string
	Platforms []Platform
	// Report is called with a line before each step. Nil drops the lines.
	Report func(line string)
}

// Sums names the file with the checksums of all others, in the form that sha256sum reads.
const Sums = "SHA256SUMS"

// making is a folder inside of the folder of a release, which exists only while Make runs.
const making = ".making"

// set is a part of a release that has a statement of provenance.
type set string

const (
	programSet set = "programs"
	imageSet   set = "images"
	chartSet   set = "charts"
)

// sets returns all of them.
func sets() []set { return []set{programSet, imageSet, chartSet} }

// Make makes a release. Until it is whole, the folder keeps the one before.
func Make(ctx context.Context, p Params) (err error) {
	selected, platforms, err := p.selection()
	if err != nil {
		return err
	}
	// go compiles in folders of the checkout, and gets whole paths.
	p.Out, err = filepath.Abs(p.Out)
	if err != nil {
		return err
	}
	source, err := readCheckout(ctx, p.Top, p.Version)
	if err != nil {
		return err
	}
	if _, err := releaseIn(p.Out); err != nil {
		return err
	}
	own, err := supply.ReadOwn(p.Top)
	if err != nil {
		return err
	}
	ui, err := supply.ReadWebUI(p.Top)
	if err != nil {
		return err
	}
	m := &maker{
		version: p.Version, checkout: source, report: p.Report, own: own, ui: ui, folder: filepath.Join(p.Out, making, "release"),
		sums: map[string]string{}, made: map[set][]artifact{},
	}
	if m.report == nil {
		m.report = func(string) {}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Join(p.Out, making))) }()
	if err := errors.Join(os.RemoveAll(filepath.Join(p.Out, making)), os.MkdirAll(m.folder, 0o755)); err != nil {
		return err
	}
	if err := m.makeAll(ctx, selected, platforms); err != nil {
		return err
	}
	if now, err := readCheckout(ctx, p.Top, p.Version); err != nil || now.commit != source.commit {
		return errors.Join(fmt.Errorf("the checkout of %s changed while the release was made", source.commit), err)
	}
	return publish(m.folder, p.Out)
}

// selection returns the programs and platforms to make.
func (p Params) selection() ([]string, []Platform, error) {
	selected, platforms := p.Programs, p.Platforms
	if len(selected) == 0 {
		selected = Programs()
	}
	if len(platforms) == 0 {
		platforms = Platforms()
	}
	for _, name := range selected {
		if !slices.Contains(Programs(), name) {
			return nil, nil, fmt.Errorf("program: got %q, want one of %s", name, strings.Join(Programs(), ", "))
		}
	}
	for _, platform := range platforms {
		if !slices.Contains(Platforms(), platform) {
			return nil, nil, fmt.Errorf("platform: got %q, want one of %v", platform.String(), Platforms())
		}
	}
	return selected, platforms, nil
}

// maker makes one release.
type maker struct {
	version  Version
	checkout checkout
	report   func(line string)
	// own holds the names of images.
	own supply.Own
	// ui is the web UI that the programs embed, for inventories.
	ui supply.WebUI
	// folder is where the files of the release gather.
	folder string
	// work is where files are that a step needs and that are not part of the release.
	work string
	// sums are the checksums of the files so far, by their names.
	sums map[string]string
	// made is the subject of the statements of provenance.
	made map[set][]artifact
}

// step reports a step, and runs it with a folder for work of its own.
func (m *maker) step(line string, do func() error) (err error) {
	m.report(line)
	m.work, err = os.MkdirTemp(filepath.Dir(m.folder), "work-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.work)) }()
	return do()
}

func (m *maker) makeAll(ctx context.Context, selected []string, platforms []Platform) error {
	dockerfile, err := os.ReadFile(filepath.Join(m.checkout.top, "Dockerfile"))
	if err != nil {
		return err
	}
	version := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	version.Dir = m.checkout.top
	goVersion, err := output(version)
	if err != nil {
		return err
	}
	m.report(fmt.Sprintf("%s of commit %s, with %s", m.version.Tag(), m.checkout.commit, goVersion))
	if !m.checkout.isTagged {
		m.report("this commit has no tag " + m.version.Tag() + ": a rehearsal")
	}
	source := ""
	for _, name := range selected {
		program, err := readProgram(string(dockerfile), name, m.checkout, m.version)
		if err != nil {
			return err
		}
		source = program.source()
		if err := m.step(program.file(), func() error { return m.makeProgram(ctx, program, platforms) }); err != nil {
			return err
		}
	}
	for _, name := range []string{charts.Hub, charts.Agent} {
		if err := m.step("chart "+name, func() error { return m.packChart(name, source) }); err != nil {
			return err
		}
	}
	m.report("provenance and checksums")
	for _, kind := range sets() {
		if err := m.writeProvenance(kind, source, goVersion); err != nil {
			return err
		}
	}
	return m.writeSums()
}

// makeProgram compiles a program for each platform, packs it, and makes its image.
func (m *maker) makeProgram(ctx context.Context, p program, platforms []Platform) error {
	var variants []built
	for _, platform := range platforms {
		if !p.runsOn(platform) {
			continue
		}
		b := built{platform: platform, path: filepath.Join(m.work, platform.OS+"-"+platform.Arch)}
		m.report("  " + platform.String())
		if err := p.compile(ctx, m.checkout.top, platform, b.path); err != nil {
			return err
		}
		if err := m.pack(p, b); err != nil {
			return err
		}
		if platform.OS == "linux" {
			variants = append(variants, b)
		}
	}
	if len(variants) == 0 {
		return nil
	}
	m.report("  image")
	return m.packImage(p, variants)
}

// write writes a file of the release, and makes it a subject of the statement about a set. With an
// empty set, no statement is about the file.
func (m *maker) write(kind set, name string, content func(w io.Writer) error) (err error) {
	f, err := os.Create(filepath.Join(m.folder, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	if err := content(io.MultiWriter(f, hash)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	m.sums[name] = hex.EncodeToString(hash.Sum(nil))
	if kind != "" {
		m.made[kind] = append(m.made[kind], subject(name, m.sums[name]))
	}
	return nil
}

// writeSums writes the checksums of all other files.
func (m *maker) writeSums() error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.sums)) {
		fmt.Fprintf(&text, "%s  %s\n", m.sums[name], name)
	}
	return os.WriteFile(filepath.Join(m.folder, Sums), []byte(text.String()), 0o644)
}

// releaseIn returns the names of the files of the release that a folder holds, with its checksums
// last. There are none in an empty folder, and in one that does not exist. It fails if the folder
// holds anything else, which replacing the release would delete.
func releaseIn(folder string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(folder, Sums))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(content)) {
		if _, name, isSum := strings.Cut(strings.TrimSpace(line), "  "); isSum {
			names = append(names, name)
		}
	}
	if content != nil {
		names = append(names, Sums)
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() != making && !slices.Contains(names, e.Name()) {
			return nil, fmt.Errorf("%s holds %s, which is not part of a release; remove it, or name another folder", folder, e.Name())
		}
	}
	return names, nil
}

// publish moves a release into a folder, in place of the one that is there. The checksums go last
// and come first, so that they list at each moment the content of the folder; see releaseIn.
func publish(from, folder string) error {
	old, err := releaseIn(folder)
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(filepath.Join(folder, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	made, err := releaseIn(from)
	if err != nil {
		return err
	}
	slices.Reverse(made)
	for _, name := range made {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}
