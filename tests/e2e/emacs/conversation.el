;;; conversation.el --- A whole conversation in Emacs through eglot alone -*- lexical-binding: t -*-

;;; Commentary:

;; A chat document, an approval, fork, resume, condense and undo, a cancelled run, and a session file as a language.
;;
;;   emacs -Q --batch -l conversation.el     SERVER (JSON list) and WORKSPACE in the environment

;;; Code:

(dolist (folder (file-expand-wildcards "/usr/share/emacs/site-lisp/elpa*/*"))
  (add-to-list 'load-path folder))
(require 'eglot)
(require 'cl-lib)

(defconst talk-server (append (json-parse-string (getenv "SERVER")) nil))
(defconst talk-workspace (file-name-as-directory (getenv "WORKSPACE")))
(defconst talk-seconds 40)
(defvar talk-client nil "The connection, whatever buffer is current.")
(defvar talk-answers nil "What the user was asked, the newest first.")

(setq eglot-sync-connect talk-seconds
      eglot-connect-timeout talk-seconds
      eglot-autoshutdown nil
      eglot-events-buffer-size 0
      eglot-confirm-server-initiated-edits nil
      ;; One project for all that is opened, as version control would have it.
      project-find-functions (list (lambda (_) (cons 'transient talk-workspace))))
(add-to-list 'eglot-server-programs (cons 'text-mode talk-server))
(cl-defmethod eglot-initialization-options (_server) '(:trusted t))

(defun talk-check (truth what &rest values)
  (unless truth (error "%s: %S" what values))
  truth)

(defun talk-wait (what condition)
  (let ((end (+ (float-time) talk-seconds)))
    (while (and (not (funcall condition)) (< (float-time) end))
      (accept-process-output nil 0.05))
    (talk-check (funcall condition) (concat "timed out: " what))))

(defun talk-open (path)
  "Open PATH with the server attached; gives the buffer."
  (find-file path)
  (text-mode)
  (if talk-client
      (eglot--maybe-activate-editing-mode)
    (apply #'eglot (eglot--guess-contact))
    (setq talk-client (eglot-current-server)))
  (talk-check (and talk-client (eq talk-client (eglot-current-server))) "no server for" path)
  (current-buffer))

(defun talk-do (name &rest params)
  "Do an operation as a command, which every editor can."
  (jsonrpc-request talk-client :workspace/executeCommand
                   (list :command (concat "indusagi.server." name) :arguments (vector params))
                   :timeout talk-seconds))

(defun talk-say (session text)
  (let ((done (talk-do "submit" :sessionId session :text text)))
    (talk-check (equal (plist-get done :phase) "settled") text done)))

(defun talk-turns (session)
  (append (plist-get (talk-do "resume" :sessionId session) :turns) nil))

(defun talk-chat-document ()
  (with-current-buffer (talk-open (expand-file-name "talk.chat.md" talk-workspace))
    (insert "What is here? See @hello")
    (eglot--signal-textDocument/didChange)
    (let ((offered (all-completions "" (nth 2 (eglot-completion-at-point)))))
      (talk-check (cl-some (lambda (one) (string-match-p "hello\\.txt" one)) offered) "completion" offered))
    (insert ".txt\n")
    (eglot--signal-textDocument/didChange)
    (let ((done (talk-do "chat/send" :uri (eglot--path-to-uri buffer-file-name))))
      (talk-check (eq (plist-get done :written) t) "not written" done)
      (let ((text (buffer-string)))
        (talk-check (string-match-p "^## Indusagi\n\nThere is one file" text) "no answer in" text)
        (talk-check (string-match-p "(indusagi:" text) "no link to the turn in" text)
        (talk-check (string-prefix-p "<!-- indusagi: session=" text) "no session in" text))
      ;; Edits are told when Emacs is idle, which it never is in batch mode.
      (eglot--signal-textDocument/didChange)
      (goto-char (point-min))
      (search-forward "(indusagi:")
      (let ((found (xref-backend-definitions 'eglot "here")))
        (talk-check (= 1 (length found)) "the link's definition" found))
      (message "the answer came into the document")
      (plist-get done :sessionId))))

(defun talk-conversation (first)
  (let ((session (plist-get (talk-do "session/new") :id)))
    ;; An approval: eglot asks the user in its own way.
    (cl-letf (((symbol-function 'completing-read)
               (lambda (prompt &rest _) (push prompt talk-answers) "Allow once")))
      (talk-say session "Write a file."))
    (talk-check (= 1 (length talk-answers)) "questions" talk-answers)
    (talk-check (file-exists-p (expand-file-name "new.txt" talk-workspace)) "nothing was written")
    (cl-letf (((symbol-function 'completing-read) (lambda (&rest _) "Deny")))
      (talk-say session "Write a file."))
    (message "asked before it acts")

    (let* ((turns (talk-turns session))
           (head (plist-get (car (last turns)) :id))
           (fork (talk-do "fork" :sessionId session :node (plist-get (car turns) :id) :before t)))
      (talk-check (equal (plist-get fork :prefill) "Write a file.") "prefill" fork)
      (talk-say session "What is here?")
      (talk-check (= 2 (length (plist-get (talk-do "session/tree" :sessionId session) :leaves))) "leaves")
      (talk-check (equal head (plist-get (talk-do "resume" :sessionId session :node head) :head)) "resume"))
    (message "forked and resumed")

    (dotimes (_ 7)
      (talk-say session (concat "Long words, please." (apply #'concat (make-list 100 " and on")))))
    (let ((before (plist-get (talk-do "resume" :sessionId session) :head))
          (done (talk-do "condense" :sessionId session)))
      (talk-check (eq t (plist-get done :condensed)) "not condensed" done)
      (talk-check (equal before (plist-get (talk-do "condense/undo" :sessionId session) :leaf)) "undo"))
    (message "condensed, and undone")

    ;; A request that is cancelled is answered as cancelled, and the session goes on.
    (let* ((server talk-client)
           (failure nil)
           (sent (jsonrpc--async-request-1
                  server :workspace/executeCommand
                  (list :command "indusagi.server.submit"
                        :arguments (vector (list :sessionId session :text "Stall.")))
                  :success-fn (lambda (result) (setq failure (list :result result)))
                  :error-fn (lambda (problem) (setq failure problem))
                  :timeout talk-seconds)))
      (talk-wait "the run to begin"
                 (lambda () (> (length (talk-do "session/list")) 0)
                   (equal "running" (plist-get (cl-find session (plist-get (talk-do "session/list") :sessions)
                                                        :key (lambda (one) (plist-get one :id)) :test #'equal)
                                               :state))))
      (jsonrpc-notify server :$/cancelRequest (list :id (car sent)))
      (talk-wait "the answer to what was cancelled" (lambda () failure))
      (talk-check (equal -32800 (plist-get failure :code)) "cancelled" failure)
      (talk-say session "What is here?"))
    (message "cancelled")

    (with-current-buffer (talk-open (expand-file-name (format ".indusagi/sessions/%s.jsonl" first) talk-workspace))
      (goto-char (point-min))
      (search-forward "There is one file")
      (let ((hover (jsonrpc-request talk-client :textDocument/hover (eglot--TextDocumentPositionParams)
                                    :timeout talk-seconds))
            (parent (xref-backend-definitions 'eglot "here")))
        (talk-check (string-match-p "There is one file" (format "%S" hover)) "hover" hover)
        (talk-check (= 1 (length parent)) "the parent" parent)
        (let ((place (xref-item-location (car parent))))
          (talk-check (< (xref-location-line place) (line-number-at-pos)) "the parent stands above" place)
          (goto-char (xref-location-marker place)))
        (talk-check (xref-backend-references 'eglot "here") "no references"))
      (talk-check (string-match-p "What is here" (format "%S" (eglot-imenu))) "outline" (eglot-imenu))
      (talk-check (xref-backend-apropos 'eglot "file") "no symbol of the workspace"))
    (message "a session file is a language")))

(condition-case problem
    (progn
      (talk-conversation (talk-chat-document))
      (eglot-shutdown talk-client nil talk-seconds)
      (message "OK")
      (kill-emacs 0))
  (error (message "FAILED %S" problem)
         (kill-emacs 1)))

;;; conversation.el ends here
