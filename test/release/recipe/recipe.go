// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package recipe reads from the Dockerfile how an image is made, so that a release can make the same
// image without a container engine: how its program is compiled, which files are in it, and how it
// runs.
//
// It understands the instructions of the Dockerfile for images that are made from nothing, and
// fails at everything else. Skipped instructions would be in the images of an engine, and not in
// those of a release.
package recipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/test/release/ocilayout"
)

// out is the folder of a stage that becomes the root of an image.
const out = "/out/"

// webUI is the folder of the web UI, which has its build in the checkout of a release. An engine copies
// it from the stages in webUIStages: the first is empty for a service that does not embed it.
const webUI = "services/distributor/internal/ui/dist/"

var webUIStages = []string{"ui", "ui-distributor"}

// defaultPath is the value that an engine sets in images that are made from nothing, as BuildKit
// does.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Image is how an image is made.
type Image struct {
	Compile Compile
	// Files is everything in the root, sorted by path, so that folders precede their content.
	Files  []File
	Config ocilayout.Config
}

// Compile is how the image's program is compiled, in the root of the checkout.
type Compile struct {
	// Env has the form NAME=VALUE.
	Env []string
	// Before and After are the arguments of go around an -o for the program.
	Before, After []string
}

// Args returns the arguments of go with which it writes the program to a file.
func (c Compile) Args(file string) []string {
	return slices.Concat(c.Before, []string{"-o", file}, c.After)
}

// File is a file or a folder of an image.
type File struct {
	// Path has no slash at its ends.
	Path     string
	Mode     fs.FileMode
	UID, GID int
	// Source is the path of the content in the checkout. The program and folders have none.
	Source string
	// IsProgram reports whether the file is the compiled program.
	IsProgram bool
}

// Read returns how the stage of a Dockerfile makes an image, with these values of ARGs. An empty
// target means the last stage.
func Read(dockerfile, target string, args map[string]string) (Image, error) {
	stages, err := stagesOf(dockerfile)
	if err != nil {
		return Image{}, err
	}
	final, err := findStage(stages, target)
	if err != nil {
		return Image{}, err
	}
	if final.base != "scratch" {
		return Image{}, fmt.Errorf("stage %q: its base is %s: only an engine makes images that are not made from nothing", target, final.base)
	}
	r := &reader{stages: stages, args: args, files: map[string]File{}}
	r.image.Config.WorkingDir, r.image.Config.Env, r.image.Config.Labels = "/", []string{defaultPath}, map[string]string{}
	if err := r.carryOut(final, r.final); err != nil {
		return Image{}, err
	}
	return r.done()
}

// reader reads the stages that make an image.
type reader struct {
	stages []stage
	args   map[string]string
	image  Image
	// files are the files of the folder out, by their paths in the image.
	files map[string]File
	// isDated reports whether the files of that folder have the fixed time, as their layer does here.
	isDated bool
}

// done returns the image after its last instruction.
func (r *reader) done() (Image, error) {
	switch {
	case r.image.Compile.After == nil:
		return Image{}, errors.New("no stage compiles the image's program")
	case !r.isDated:
		return Image{}, errors.New("no command sets the times of the image's files, so that each build has its own")
	case len(r.image.Config.Entrypoint) == 0:
		return Image{}, errors.New("the image has no ENTRYPOINT")
	}
	for _, name := range slices.Collect(maps.Keys(r.files)) {
		for above := path.Dir(name); above != "."; above = path.Dir(above) {
			if _, exists := r.files[above]; !exists {
				r.files[above] = File{Path: above, Mode: fs.ModeDir | 0o755}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		r.image.Files = append(r.image.Files, r.files[name])
	}
	return r.image, nil
}

// carryOut reads the instructions of a stage with do, which gets their words and the values of the
// ARGs so far. It reads ARGs itself.
func (r *reader) carryOut(s stage, do func(i instruction, words []string) error) error {
	variables := map[string]string{}
	for _, i := range s.instructions {
		if i.keyword == "ARG" {
			name, value, _ := strings.Cut(i.rest, "=")
			if given, isGiven := r.args[name]; isGiven {
				value = given
			}
			variables[name] = value
			continue
		}
		text := i.rest
		// A list in JSON is not split into words.
		if before, list, isList := strings.Cut(i.rest, "["); isList && strings.HasSuffix(list, "]") {
			text = before
		}
		split, err := words(text, variables)
		if err == nil {
			err = do(i, split)
		}
		if err != nil {
			return fmt.Errorf("stage %q: %s: %w", s.name, i, err)
		}
	}
	return nil
}

// errUnknown means that a release would make another image than an engine.
var errUnknown = errors.New("a release does not know how to carry this out; see test/release/recipe")

// final reads an instruction of the stage that is the image.
func (r *reader) final(i instruction, words []string) error {
	config := &r.image.Config
	switch i.keyword {
	case "COPY":
		from, isCopy := strings.CutPrefix(i.rest, "--from=")
		name, paths, _ := strings.Cut(from, " ")
		if !isCopy || paths != out+" /" {
			return errUnknown
		}
		return r.builds(name)
	case "USER", "WORKDIR":
		if len(words) != 1 {
			return errUnknown
		}
		if i.keyword == "USER" {
			config.User = words[0]
		} else {
			config.WorkingDir = words[0]
		}
	case "ENV", "LABEL":
		for _, word := range words {
			name, value, isPair := strings.Cut(word, "=")
			if !isPair {
				return errUnknown
			}
			if i.keyword == "ENV" {
				config.Env = append(config.Env, word)
			} else {
				config.Labels[name] = value
			}
		}
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(i.rest), &config.Entrypoint)
	case "HEALTHCHECK":
		check, err := healthcheck(i, words)
		config.Healthcheck = check
		return err
	default:
		return errUnknown
	}
	return nil
}

// healthcheck reads a HEALTHCHECK whose command is a list.
func healthcheck(i instruction, words []string) (*ocilayout.Healthcheck, error) {
	check := &ocilayout.Healthcheck{}
	for _, word := range words {
		var err error
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "--interval":
			check.Interval, err = time.ParseDuration(value)
		case "--timeout":
			check.Timeout, err = time.ParseDuration(value)
		case "--start-period":
			check.StartPeriod, err = time.ParseDuration(value)
		case "--retries":
			check.Retries, err = strconv.Atoi(value)
		case "CMD":
			_, list, isList := strings.Cut(i.rest, "CMD [")
			if err = errUnknown; isList {
				err = json.Unmarshal([]byte("["+list), &check.Test)
			}
		default:
			err = errUnknown
		}
		if err != nil {
			return nil, err
		}
	}
	check.Test = append([]string{"CMD"}, check.Test...)
	return check, nil
}

// builds reads the stage from which an image copies its files, and the stages below it.
func (r *reader) builds(name string) error {
	at := slices.IndexFunc(r.stages, func(s stage) bool { return s.name == name })
	if at < 0 {
		return fmt.Errorf("there is no stage %q", name)
	}
	s := r.stages[at]
	if slices.ContainsFunc(r.stages[:at], func(earlier stage) bool { return earlier.name == s.base }) {
		if err := r.builds(s.base); err != nil {
			return err
		}
	}
	return r.carryOut(s, r.build)
}

// build reads an instruction of a stage that builds.
func (r *reader) build(i instruction, words []string) error {
	switch i.keyword {
	case "WORKDIR": // the checkout
		return nil
	case "COPY": // the checkout is there already
		if from, isFrom := strings.CutPrefix(words[0], "--from="); isFrom {
			if !slices.Contains(webUIStages, from) || !slices.Equal(words[1:], []string{"/", webUI}) {
				return errUnknown
			}
			return nil
		}
		if len(words) < 2 || strings.HasPrefix(words[0], "-") || path.IsAbs(words[len(words)-1]) {
			return errUnknown
		}
		return nil
	case "RUN":
		for len(words) > 0 && strings.HasPrefix(words[0], "--mount=type=cache,") {
			words = words[1:]
		}
		for command := range commands(words) {
			if err := r.run(command); err != nil {
				return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
			}
		}
		return nil
	default:
		return errUnknown
	}
}

// commands yields the commands of a RUN, between its &&.
func commands(words []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for len(words) > 0 {
			end := slices.Index(words, "&&")
			if end < 0 {
				end = len(words)
			}
			if !yield(words[:end]) {
				return
			}
			words = words[min(end+1, len(words)):]
		}
	}
}

// assignment is a variable in front of a command.
var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// run reads a command of a RUN.
func (r *reader) run(command []string) error {
	env := []string(nil)
	for len(command) > 0 && assignment.MatchString(command[0]) {
		env, command = append(env, command[0]), command[1:]
	}
	if len(command) == 0 || slices.ContainsFunc(command, func(word string) bool { return strings.Contains(word, "&") }) {
		return errUnknown
	}
	switch command[0] {
	case "go":
		return r.compile(env, command[1:])
	case "install":
		return r.install(command[1:])
	case "find": // which also dates the folders
		if !slices.Equal(command, []string{"find", strings.TrimSuffix(out, "/"), "-exec", "touch", "-d", "@0", "{}", "+"}) {
			return errUnknown
		}
		r.isDated = true
		return nil
	default:
		return errUnknown
	}
}

// compile reads a command of go that compiles the program. A download of modules changes nothing.
func (r *reader) compile(env, args []string) error {
	if slices.Contains(args, "download") {
		return nil
	}
	at := slices.Index(args, "-o")
	if !slices.Contains(args, "build") || at < 0 || at+2 > len(args) || !strings.HasPrefix(args[at+1], out) || r.image.Compile.After != nil {
		return errUnknown
	}
	r.image.Compile = Compile{Env: env, Before: args[:at], After: args[at+2:]}
	return r.add(File{Path: args[at+1], Mode: 0o755, IsProgram: true})
}

// install reads install -D -m MODE FILE FILE, and install -d -m MODE [-o UID -g GID] FOLDER.
func (r *reader) install(args []string) error {
	f, isFolder, isFile := File{}, false, false
	var err error
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch {
		case args[0] == "-D":
			isFile, args = true, args[1:]
			continue
		case args[0] == "-d":
			isFolder, args = true, args[1:]
			continue
		case len(args) == 1:
			return errUnknown
		case args[0] == "-m":
			mode, parseErr := strconv.ParseUint(args[1], 8, 9)
			f.Mode, err = fs.FileMode(mode), parseErr
		case args[0] == "-o":
			f.UID, err = strconv.Atoi(args[1])
		case args[0] == "-g":
			f.GID, err = strconv.Atoi(args[1])
		default:
			err = errUnknown
		}
		if err != nil {
			return err
		}
		args = args[2:]
	}
	switch {
	case f.Mode == 0 || isFile == isFolder:
		return errUnknown
	case isFolder && len(args) == 1:
		f.Mode |= fs.ModeDir
	case isFile && len(args) == 2 && !path.IsAbs(args[0]):
		f.Source = args[0]
	default:
		return errUnknown
	}
	f.Path = args[len(args)-1]
	return r.add(f)
}

// add adds a file, whose path is still the one in the building stage. Changes after the times are
// set would have the time of the build.
func (r *reader) add(f File) error {
	name, isBelow := strings.CutPrefix(f.Path, out)
	if !isBelow || !fs.ValidPath(name) || r.isDated {
		return errUnknown
	}
	f.Path = name
	r.files[name] = f
	return nil
}
