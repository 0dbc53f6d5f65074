// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatdev/leat/test/release/archive"
	"github.com/leatdev/leat/test/release/recipe"
	"github.com/leatdev/leat/test/supply"
)

// Platform is the target of a compilation.
type Platform struct{ OS, Arch string }

// String returns the platform in the form linux/amd64.
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Platforms returns the platforms of a whole release.
func Platforms() []Platform {
	return []Platform{
		{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
	}
}

// CommandLine names the program of the command line.
const CommandLine = "leat"

// Programs returns the names of the programs of a whole release, which are also the names of their
// images in the repository leat. The names of the programs of services begin with leat- where they
// are on their own, outside of an image.
func Programs() []string { return []string{"agent", "distributor", "gitcache", CommandLine, "tunnel"} }

// program is a program, and how the Dockerfile makes its image.
type program struct {
	name  string
	image recipe.Image
}

// readProgram reads how a program and its image are made.
func readProgram(dockerfile, name string, c checkout, version Version) (program, error) {
	target, args := "", map[string]string{"VERSION": version.Number(), "REVISION": c.commit}
	if name == CommandLine {
		target = "cli"
	} else {
		args["SERVICE"] = name
	}
	image, err := recipe.Read(dockerfile, target, args)
	if err != nil {
		return program{}, fmt.Errorf("read the Dockerfile: %w", err)
	}
	return program{name: name, image: image}, nil
}

// file returns the program's name outside of an image.
func (p program) file() string {
	if p.name == CommandLine {
		return CommandLine
	}
	return "leat-" + p.name
}

// source returns the URL of the repository, as the image has it.
func (p program) source() string { return p.image.Config.Labels["org.opencontainers.image.source"] }

// runsOn reports whether a release has the program for a platform: services run on Linux alone.
func (p program) runsOn(platform Platform) bool {
	return p.name == CommandLine || platform.OS == "linux"
}

// settings are the settings of go that change a program. A release fixes them, whatever the
// machine's are. GOFLAGS repeats a flag of the Dockerfile, because an empty value would not
// override go's own file.
func settings(platform Platform) []string {
	return []string{
		"GOOS=" + platform.OS, "GOARCH=" + platform.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-trimpath", "GOFIPS140=off",
	}
}

// compile compiles the program for a platform as the Dockerfile does.
func (p program) compile(ctx context.Context, top string, platform Platform, file string) error {
	command := exec.CommandContext(ctx, "go", p.image.Compile.Args(file)...)
	command.Dir = top
	inherited := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GOEXPERIMENT=") })
	command.Env = slices.Concat(inherited, settings(platform), p.image.Compile.Env)
	if _, err := output(command); err != nil {
		return fmt.Errorf("compile %s for %s: %w", p.file(), platform, err)
	}
	return nil
}

// built is a program that is compiled for a platform.
type built struct {
	platform Platform
	path     string
}

// pack writes the archive and the inventory of a compiled program.
func (m *maker) pack(p program, b built) error {
	name := fmt.Sprintf("%s_%s_%s_%s", p.file(), m.version.Number(), b.platform.OS, b.platform.Arch)
	executable, suffix, write := p.file(), ".tar.gz", archive.TarGz
	if b.platform.OS == "windows" {
		executable, suffix, write = executable+".exe", ".zip", archive.Zip
	}
	readme, err := os.ReadFile(filepath.Join(m.checkout.top, readmeFile))
	if err != nil {
		return err
	}
	entries := []archive.Entry{
		{Name: name, Mode: os.ModeDir | 0o755},
		{Name: name + "/" + executable, Mode: 0o755, File: b.path},
		{Name: name + "/LICENSE", Mode: 0o644, File: filepath.Join(m.checkout.top, "LICENSE")},
		{Name: name + "/" + supply.NoticesFile, Mode: 0o644, File: filepath.Join(m.checkout.top, supply.NoticesFile)},
		{Name: name + "/" + readmeFile, Mode: 0o644, Content: abroad(readme, p.source(), m.refName(), "", "LICENSE", supply.NoticesFile)},
	}
	err = m.write(programSet, name+suffix, func(w io.Writer) error { return write(w, m.checkout.time, entries) })
	if err != nil {
		return err
	}
	return m.write(programSet, name+".cdx.json", func(w io.Writer) error { return supply.WriteSBOM(w, b.path, m.version.Number(), m.ui) })
}
