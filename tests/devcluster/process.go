package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// command is what to run, so that it can be run again.
type command struct {
	name string // also the name of the log file
	path string
	args []string
}

// process is one run of a command.
type process struct {
	command
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and err is set
	err  error
}

// processes are the children of this launcher. Only the main goroutine uses it.
type processes struct {
	dir     string // working directory, home and place of the logs
	gogc    string
	running map[string]*process
	ended   chan *process // processes that ended without being asked to
}

func newProcesses(dir, gogc string) *processes {
	// Room for every child, so that no waiting goroutine is ever stuck.
	return &processes{dir: dir, gogc: gogc, running: map[string]*process{}, ended: make(chan *process, 16)}
}

// start runs a command. Must be called on the main thread: see init in main.go.
func (p *processes) start(c command) error {
	logPath := filepath.Join(p.dir, "log", c.name+".log")
	if err := os.MkdirAll(filepath.Dir(logPath), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own copy

	cmd := exec.Command(c.path, c.args...)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = log, log
	// etcd and kwok also read their settings from the environment and the home directory.
	cmd.Env = []string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH")}
	if p.gogc != "" {
		cmd.Env = append(cmd.Env, "GOGC="+p.gogc)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, // however this launcher ends, the child ends with it
		Setpgid:   true,            // Ctrl-C reaches the launcher only
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}

	child := &process{command: c, log: logPath, cmd: cmd, done: make(chan struct{})}
	p.running[c.name] = child
	ended := p.ended
	go func() {
		child.err = cmd.Wait()
		close(child.done)
		ended <- child
	}()
	return nil
}

// stopAll kills every child and waits until each is gone. There is nothing to save: the
// data goes away too, and with -keep etcd's log on disk is complete after a kill.
func (p *processes) stopAll() {
	for _, child := range p.running {
		_ = child.cmd.Process.Kill() // fails only when it has already ended
	}
	for _, child := range p.running {
		<-child.done
	}
	p.running = map[string]*process{}
	p.ended = make(chan *process, cap(p.ended))
}

// failed returns an error when a child has ended.
func (p *processes) failed() error {
	for _, child := range p.running {
		select {
		case <-child.done:
			return child.failure()
		default:
		}
	}
	return nil
}

// lostPort tells whether a child ended because its port was taken.
func (p *processes) lostPort() bool {
	for _, child := range p.running {
		select {
		case <-child.done:
			if strings.Contains(child.lastLines(50), "address already in use") {
				return true
			}
		default:
		}
	}
	return false
}

func (p *processes) pids() map[string]int {
	pids := make(map[string]int, len(p.running))
	for name, child := range p.running {
		pids[name] = child.cmd.Process.Pid
	}
	return pids
}

// failure explains why a process ended that was meant to stay.
func (c *process) failure() error {
	err := c.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended: %w; the end of its log:\n%s", c.name, err, c.lastLines(15))
}

func (c *process) lastLines(n int) string {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
