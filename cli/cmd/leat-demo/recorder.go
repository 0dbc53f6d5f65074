// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/leatdev/leat/cli/internal/screencast"
)

// recorder collects the lines of the demo. One goroutine uses it.
type recorder struct {
	began  time.Time
	folder string
	lines  []screencast.Line
}

func (r *recorder) add(text string, isCommand bool) {
	r.lines = append(r.lines, screencast.Line{At: time.Since(r.began), Text: text, IsCommand: isCommand})
}

// play starts leat up, runs the commands of the demo one after the other, and ends leat up.
func (r *recorder) play(ctx context.Context, leat, source string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up := exec.CommandContext(ctx, leat, "up", "--kube-source", source)
	up.Dir, up.Stderr = r.folder, os.Stderr
	up.Cancel = func() error { return up.Process.Signal(syscall.SIGTERM) }
	output, err := up.StdoutPipe()
	if err != nil {
		return fmt.Errorf("read what leat up prints: %w", err)
	}
	r.add("leat up", true)
	if err := up.Start(); err != nil {
		return fmt.Errorf("start leat up: %w", err)
	}
	scanner := bufio.NewScanner(output)
	kubectl, err := r.untilDelivered(scanner)
	if err == nil {
		go func() { _, _ = io.Copy(io.Discard, output) }() // ends with leat up
		err = r.typeDemo(ctx, leat, kubectl)
	}
	cancel()
	if ended := up.Wait(); err == nil && ended != nil && !errors.Is(ended, context.Canceled) {
		return fmt.Errorf("leat up: %w", ended)
	}
	return err
}

// delivered begins the summary of leat up, of which the recording has only that line.
const delivered = "✓"

// kubectlLine is the line of the summary that names kubectl.
var kubectlLine = regexp.MustCompile(`^\s*(\S*kubectl) --kubeconfig`)

// untilDelivered records what leat up prints until the demo is delivered, and returns the kubectl
// that it names.
func (r *recorder) untilDelivered(scanner *bufio.Scanner) (kubectl string, err error) {
	isDelivered := false
	for scanner.Scan() {
		line := scanner.Text()
		if !isDelivered {
			r.add(strings.ReplaceAll(line, r.folder, "~"), false)
		}
		isDelivered = isDelivered || strings.HasPrefix(line, delivered)
		if match := kubectlLine.FindStringSubmatch(line); match != nil {
			kubectl = match[1]
		}
		if strings.HasPrefix(line, "Ctrl-C") {
			r.add("", false)
			return kubectl, nil
		}
	}
	return "", errors.Join(errors.New("leat up ended before the demo was delivered"), scanner.Err())
}

// typeDemo runs the commands of the demo in one shell, so that one may change the folder for the next.
func (r *recorder) typeDemo(ctx context.Context, leat, kubectl string) error {
	shell := exec.CommandContext(ctx, "sh")
	shell.Dir = r.folder
	shell.Env = append(os.Environ(),
		"LEAT_CONFIG="+filepath.Join(r.folder, ".leat", "up", "config.yaml"),
		"GIT_AUTHOR_NAME=you", "GIT_AUTHOR_EMAIL=you@example.com", "GIT_COMMITTER_NAME=you", "GIT_COMMITTER_EMAIL=you@example.com")
	input, err := shell.StdinPipe()
	if err != nil {
		return fmt.Errorf("write to the shell: %w", err)
	}
	output, err := shell.StdoutPipe()
	if err != nil {
		return fmt.Errorf("read from the shell: %w", err)
	}
	shell.Stderr = shell.Stdout
	if err := shell.Start(); err != nil {
		return fmt.Errorf("start a shell: %w", err)
	}
	if _, err := fmt.Fprintf(input, "export PATH='%s:%s':\"$PATH\"\n", filepath.Dir(leat), filepath.Dir(kubectl)); err != nil {
		return fmt.Errorf("write to the shell: %w", err)
	}
	scanner := bufio.NewScanner(output)
	for _, command := range demo {
		r.add(command, true)
		// The mark behind the command has its exit code: the demo ends where a command fails.
		if _, err := fmt.Fprintf(input, "%s\necho \"%s$?\"\n", command, mark); err != nil {
			return fmt.Errorf("write to the shell: %w", err)
		}
		if err := r.untilMark(scanner, command); err != nil {
			return err
		}
	}
	if err := input.Close(); err != nil {
		return fmt.Errorf("close the shell's input: %w", err)
	}
	if err := shell.Wait(); err != nil {
		return fmt.Errorf("end the shell: %w", err)
	}
	return nil
}

// mark is the beginning of the line that the shell prints when a command has ended.
const mark = "leat-demo: ended with "

// untilMark records the lines of a command.
func (r *recorder) untilMark(scanner *bufio.Scanner, command string) error {
	for scanner.Scan() {
		code, isEnd := strings.CutPrefix(scanner.Text(), mark)
		switch {
		case !isEnd:
			r.add(scanner.Text(), false)
		case code != "0":
			return fmt.Errorf("%s ended with exit code %s: %s", command, code, r.lines[len(r.lines)-1].Text)
		default:
			r.add("", false)
			return nil
		}
	}
	return errors.Join(fmt.Errorf("the shell ended in %s", command), scanner.Err())
}
